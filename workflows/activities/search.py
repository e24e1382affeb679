"""Activities of a search: propose, build, judge and screen, then settle the winner."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from temporalio import activity

from candidates.agent import Attempt, Budget, KernelAgent, Stop, fastest_first
from candidates.benchmark.benchmark import Benchmark, LiveKernel
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.compiler_reports import CompilerReports
from candidates.gpu_counters import WorkloadCounters
from candidates.gpu_profiler import NotCounted
from candidates.judge.judge import Judge
from candidates.judge.sanitizers_by_language import SanitizersByLanguage
from candidates.ledger.artifacts import artifacts_of
from candidates.ledger.blobs import BlobStore
from candidates.ledger.cards import Cards
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.reports import RecordedReports
from candidates.measurement import Decision, Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.memory import lessons
from candidates.promotion import PromotionDecision, decide_promotion
from candidates.run import Progress, SearchEnd, Stage
from candidates.spending import op_account, run_account
from candidates.task import KernelTask
from candidates.verdict import Evidence, Reason, Rejected, is_native
from workflows.activities.about import about
from workflows.activities.telemetry import tell_judged, timed
from workflows.payloads import Generation, GenerationOutcome, ProposeInput, ReportInput, SettleInput

FINALISTS = 2
"""Screening ranks within a few per cent; so many of its best go into the race."""


RACE_S = 8.0
CONFIRM_S = 20.0
"""Caps for kernels of many milliseconds; small ones are decided in a fraction."""


class AuthorActivities:
    def __init__(self, ledger: Ledger, blobs: BlobStore, agents: Callable[[str], KernelAgent]) -> None:
        """`agents` by name."""
        self._ledger, self._blobs, self._agents = ledger, blobs, agents
        self._model_calls = ModelCalls(ledger)

    @activity.defn
    def propose(self, ask: ProposeInput) -> Generation:
        started = time.monotonic()
        task = self._ledger.task(ask.task_id)
        pending = _read_proposals(self._blobs, ask.pending)
        unknown = {proposal.candidate.id for proposal in pending}
        # Of those that are judged meanwhile it must not depend on the moment how many are known.
        attempts = tuple(
            attempt
            for attempt in self._ledger.attempts(ask.run_id, ask.task_id)
            if attempt.proposal.candidate.id not in unknown
        )
        # With what came before it: a workflow that was begun again counts its rounds anew, and must not be given the
        # answers to other questions.
        round_name = f"round-{ask.round_number}-after-{len(attempts)}"
        budget = Budget(
            seconds=ask.seconds_left,
            attempts=ask.attempts_left,
            round_id=f"{op_account(ask.run_id, ask.task_id)}/{ask.agent}/{round_name}",
            models=ask.models.endpoints,
            accounts=self._open_accounts(ask),
            pending=pending,
            recalls_past=ask.recalls_past,
        )
        if ask.round_number == 0:
            message = f"{ask.agent} writes its first kernels"
            self._ledger.add_progress(ask.run_id, Progress(stage=Stage.SEARCH, op=task.op, message=message))
        reply = self._agents(ask.agent).propose(task, attempts, budget)
        proposals = () if isinstance(reply, Stop) else reply.proposals[: ask.attempts_left]
        if any(proposal.model is not None for proposal in proposals):
            spent = self._model_calls.balance(run_account(ask.run_id)).used
            message = f"{ask.agent} wrote {len(proposals)} kernels, models cost ${spent.usd:.2f} so far"
            self._ledger.add_progress(ask.run_id, Progress(stage=Stage.SEARCH, op=task.op, message=message))
        return Generation(
            run_id=ask.run_id,
            task_id=ask.task_id,
            proposals=tuple(self._blobs.put(proposal.model_dump_json().encode()) for proposal in proposals),
            may_go_ahead=not isinstance(reply, Stop) and reply.may_go_ahead,
            stop_reason=f"{reply.reason}: {reply.message}" if isinstance(reply, Stop) else None,
            wall_s=time.monotonic() - started,
        )

    def _open_accounts(self, ask: ProposeInput) -> tuple[str, ...]:
        if not ask.models.endpoints:
            return ()
        run, op = run_account(ask.run_id), op_account(ask.run_id, ask.task_id)
        self._model_calls.open_account(run, ask.models.run)
        self._model_calls.open_account(op, ask.models.op)
        return (run, op)


class BuildActivities:
    def __init__(
        self, ledger: Ledger, blobs: BlobStore, builder: Builder, reports: CompilerReports, parallel: int
    ) -> None:
        self._ledger, self._blobs, self._builder, self._parallel = ledger, blobs, builder, parallel
        self._reports = reports

    @activity.defn
    def build_generation(self, generation: Generation) -> float:
        """Builds what is not built yet; a build that fails is an attempt that ended. Wall seconds."""
        started = time.monotonic()
        task = self._ledger.task(generation.task_id)
        proposals = _read_proposals(self._blobs, generation.proposals)
        with ThreadPoolExecutor(self._parallel) as pool:
            failures = pool.map(lambda proposal: self._build(task, proposal.candidate), proposals)
            # In the order of the proposals, whichever build ends first: what an agent is told must not vary.
            for proposal, failure in zip(proposals, failures, strict=True):
                if failure is not None:
                    self._ledger.put_attempt(generation.run_id, task.id, Attempt(proposal=proposal, verdict=failure))
        return time.monotonic() - started

    @activity.defn
    def report_best(self, ask: ReportInput) -> None:
        """Asks the compiler what it made of the search's best candidate, once."""
        ends = self._ledger.search_ends(ask.run_id)
        best = next((end.candidate_id for end in ends if end.task_id == ask.task_id), None)
        recorded = RecordedReports(self._ledger)
        if best is None or recorded.of(ask.task_id, best) is not None:
            return
        with timed("compiling"):
            made = self._reports.report(self._ledger.task(ask.task_id), self._ledger.candidate(best))
        recorded.put(ask.task_id, best, made)

    def _build(self, task: KernelTask, candidate: Candidate) -> Rejected | None:
        """None: its artifact is there."""
        self._ledger.put_candidate(candidate)
        known = self._ledger.artifact(task.id, candidate.id)
        if known is not None and self._blobs.keep(known):
            # Once more: whoever prunes may have noted it just before it was kept.
            self._ledger.put_artifact(task.id, candidate.id, known)
            return None
        with about(task_id=task.id, candidate_id=candidate.id), timed("compiling"):
            built = self._builder.build(task, candidate)
        if isinstance(built, Rejected):
            return built
        self._ledger.put_artifact(task.id, candidate.id, self._blobs.put(built))
        return None


class DeviceSearchActivities:
    """Everything that runs candidates on the device; one at a time, by its task queue."""

    def __init__(
        self,
        ledger: Ledger,
        blobs: BlobStore,
        judge: Judge,
        sanitizers: SanitizersByLanguage,
        benchmark: Callable[[KernelTask], Benchmark | None],
        live: Callable[[KernelTask], LiveKernel | None],
        count: Callable[[KernelTask, Candidate, bytes], WorkloadCounters | NotCounted | None],
    ) -> None:
        """`benchmark` None: nothing here times kernels for the task's device. `live`: what serves the task now. `count`
        reads a device's counters, where it has any."""
        self._ledger, self._blobs, self._judge = ledger, blobs, judge
        self._sanitizers, self._benchmark, self._live = sanitizers, benchmark, live
        self._count = count

    @activity.defn
    def evaluate_generation(self, generation: Generation) -> GenerationOutcome:
        """Judges and screens what has no verdict yet in this run."""
        started = time.monotonic()
        task, flaws = self._ledger.task(generation.task_id), Flaws(self._ledger)
        # Read once: a search's attempts are megabytes. Nobody else adds to them but a try of this activity that was
        # given up and has not noticed yet, of the same proposals.
        attempts = list(self._ledger.attempts(generation.run_id, task.id))
        done = {attempt.proposal.candidate.id for attempt in attempts}
        artifacts = artifacts_of(self._ledger, task.id)
        for proposal in _read_proposals(self._blobs, generation.proposals):
            if proposal.candidate.id in done:
                continue
            attempt = self._evaluate(task, proposal, flaws, attempts, artifacts)
            counted = self._count_fastest(task, attempt, attempts)
            if isinstance(counted, WorkloadCounters):
                attempt = attempt.model_copy(update={"counters": counted})
            is_first = self._ledger.put_attempt(generation.run_id, task.id, attempt)
            attempts.append(attempt)
            if is_first:
                self._report(generation.run_id, task, attempts, counted)
                with about(candidate_id=proposal.candidate.id):
                    tell_judged(attempt)
        return GenerationOutcome(tried=len(attempts), wall_s=time.monotonic() - started)

    @activity.defn
    def settle_winner(self, settle: SettleInput) -> None:
        """Races the finalists of the screening, sanitizes and confirms the best, and records how the search ended."""
        if any(end.task_id == settle.task_id for end in self._ledger.search_ends(settle.run_id)):
            return
        task = self._ledger.task(settle.task_id)
        attempts = self._ledger.attempts(settle.run_id, task.id)
        end = self._settle(settle, task, attempts)
        Cards(self._ledger).put(lessons(task, attempts))
        self._ledger.put_search_end(settle.run_id, end)
        self._ledger.add_progress(
            settle.run_id,
            Progress(
                stage=Stage.SEARCH,
                op=task.op,
                tried=end.tried,
                best_speedup=self._confirmed_speedup(settle.run_id, end),
                message=f"{end.decision}: {end.reason}",
            ),
        )

    def _evaluate(
        self,
        task: KernelTask,
        proposal: Proposal,
        flaws: Flaws,
        earlier: Sequence[Attempt],
        artifacts: Mapping[str, str],
    ) -> Attempt:
        """`artifacts`: blobs by candidate id; what has the machine code of an earlier attempt fared as that one did."""
        if (flaw := flaws.of(proposal.candidate.id)) is not None:
            evidence = Evidence(message=flaw)
            taken_back = Rejected(reason=Reason.RETRACTED, workload=None, evidence=evidence, seed=0)
            return Attempt(proposal=proposal, verdict=taken_back)
        if (twin := _twin_of(proposal.candidate, earlier, artifacts)) is not None:
            return twin.model_copy(update={"proposal": proposal})
        artifact = self._artifact(task, proposal.candidate.id)
        with about(candidate_id=proposal.candidate.id), timed("judging"):
            verdict = self._judge.judge(task, proposal.candidate, artifact)
        if not is_native(verdict) or (benchmark := self._benchmark(task)) is None:
            return Attempt(proposal=proposal, verdict=verdict)
        with about(candidate_id=proposal.candidate.id), timed("screening"):
            screened = benchmark.screen(task, proposal.candidate, artifact, incumbent=_incumbent(task, earlier))
        if isinstance(screened, Rejected):
            return Attempt(proposal=proposal, verdict=screened)
        return Attempt(proposal=proposal, verdict=verdict, measurement=screened)

    def _count_fastest(
        self, task: KernelTask, attempt: Attempt, earlier: Sequence[Attempt]
    ) -> WorkloadCounters | NotCounted | None:
        """Half a minute: for what is worth going on from."""
        if attempt.speedup is None:
            return None
        fastest = fastest_first(earlier)
        if fastest and attempt.speedup <= (fastest[0].speedup or 0.0):
            return None
        candidate = attempt.proposal.candidate
        return self._count(task, candidate, self._artifact(task, candidate.id))

    def _settle(self, settle: SettleInput, task: KernelTask, attempts: tuple[Attempt, ...]) -> SearchEnd:
        def ended(decision: str, candidate_id: str | None, reason: str) -> SearchEnd:
            return SearchEnd.model_validate(
                {
                    "task_id": task.id,
                    "op": task.op,
                    "decision": decision,
                    "candidate_id": candidate_id,
                    "reason": reason,
                    "stop_reason": settle.stop_reason,
                    "tried": len(attempts),
                }
            )

        def decided(promotion: PromotionDecision) -> SearchEnd:
            if promotion.is_promoted:
                return ended("won", promotion.candidate_id, settle.stop_reason)
            failed = ", ".join(gate.name for gate in promotion.gates if not gate.passed)
            return ended("undecided", promotion.candidate_id, f"not passed: {failed}")

        if not attempts:
            return ended("no_program", None, settle.stop_reason)
        # Killed before the end was recorded: another race could have another winner, and a task would have two.
        for promotion in self._ledger.promotions(settle.run_id):
            if promotion.task_id == task.id:
                return decided(promotion)
        screened = fastest_first(attempts)
        waiting = [attempt for attempt in attempts if not isinstance(attempt.verdict, Rejected)]
        if not screened and waiting:
            reason = f"{len(waiting)} of {len(attempts)} candidates wait for {', '.join(task.architectures) or 'a GPU'}"
            return ended("undecided", waiting[0].proposal.candidate.id, reason)
        if not screened:
            reasons = sorted({a.verdict.reason for a in attempts if isinstance(a.verdict, Rejected)})
            return ended("rejected", None, f"all {len(attempts)} candidates rejected: {', '.join(reasons)}")
        if settle.last_stage is MeasurementStage.SCREEN:
            return ended("undecided", screened[0].proposal.candidate.id, f"screened at {screened[0].speedup:.2f}x")
        raced: list[tuple[Attempt, Measurement]] = []
        caught: list[str] = []
        for attempt in screened[:FINALISTS]:
            match self._measure(settle.run_id, task, attempt, MeasurementStage.RACE):
                case Measurement() as measured:
                    raced.append((attempt, measured))
                case Rejected() as rejected:
                    caught.append(_in_words(rejected))
        if not raced:
            return ended("rejected", screened[0].proposal.candidate.id, f"in its race: {caught[0]}")
        raced.sort(key=lambda pair: -pair[1].traffic_weighted_speedup)
        best, measurement = raced[0]
        candidate_id = best.proposal.candidate.id
        if measurement.decision is not Decision.WIN:
            decision = "lost" if measurement.decision is Decision.LOSE else "undecided"
            return ended(decision, candidate_id, f"race at {measurement.traffic_weighted_speedup:.2f}x")
        # Seconds, where a confirmation takes half a minute: what fails here is not worth confirming.
        for best in (attempt for attempt, measured in raced if measured.decision is Decision.WIN):
            candidate_id = best.proposal.candidate.id
            sanitized = self._sanitizers.check(task, best.proposal.candidate, self._artifact(task, candidate_id))
            if not isinstance(sanitized, Rejected):
                break
            caught.append(_in_words(sanitized))
        else:
            return ended("rejected", candidate_id, f"under sanitizers: {caught[-1]}")
        confirmed = self._measure(settle.run_id, task, best, MeasurementStage.CONFIRM)
        if isinstance(confirmed, Rejected):
            return ended("rejected", candidate_id, f"while its win was being confirmed: {_in_words(confirmed)}")
        promotion = decide_promotion(task.id, candidate_id, best.verdict, confirmed)
        self._ledger.put_promotion(settle.run_id, promotion)
        return decided(promotion)

    def _measure(
        self, run_id: str, task: KernelTask, attempt: Attempt, stage: MeasurementStage
    ) -> Measurement | Rejected:
        candidate = attempt.proposal.candidate
        known = self._ledger.measurement(run_id, task.id, candidate.id, stage)
        if known is not None:
            return known
        benchmark, artifact = self._benchmark(task), self._artifact(task, candidate.id)
        if benchmark is None:
            raise RuntimeError(f"what was screened for {task.device_id} can no longer be timed here")
        live = self._live(task)
        if live is not None and live.candidate.id == candidate.id:
            live = None  # found once more
        if stage is MeasurementStage.RACE:
            measured = benchmark.race(task, candidate, artifact, live=live, most_s=RACE_S)
        else:
            measured = benchmark.confirm(task, candidate, artifact, live=live, most_s=CONFIRM_S)
        if isinstance(measured, Rejected):
            return measured
        return self._ledger.put_measurement(run_id, task.id, candidate.id, measured)

    def _artifact(self, task: KernelTask, candidate_id: str) -> bytes:
        blob = self._ledger.artifact(task.id, candidate_id)
        if blob is None:
            raise RuntimeError(f"candidate {candidate_id} of task {task.id} was never built")
        return self._blobs.get(blob)

    def _report(
        self, run_id: str, task: KernelTask, attempts: Sequence[Attempt], counted: WorkloadCounters | NotCounted | None
    ) -> None:
        """Of the last of them."""
        attempt = attempts[-1]
        best = next((each.speedup for each in fastest_first(attempts)), None)
        if isinstance(attempt.verdict, Rejected):
            message = f"rejected: {attempt.verdict.reason.value}"
        else:
            message = attempt.verdict.outcome if attempt.speedup is None else f"screened at {attempt.speedup:.2f}x"
        if isinstance(counted, NotCounted):
            message = f"{message}; no counters: {counted.why}"
        self._ledger.add_progress(
            run_id,
            Progress(stage=Stage.SEARCH, op=task.op, tried=len(attempts), best_speedup=best, message=message),
        )

    def _confirmed_speedup(self, run_id: str, end: SearchEnd) -> float | None:
        if end.candidate_id is None:
            return None
        confirmed = self._ledger.measurement(run_id, end.task_id, end.candidate_id, MeasurementStage.CONFIRM)
        return confirmed.traffic_weighted_speedup if confirmed is not None else None


def _twin_of(candidate: Candidate, earlier: Sequence[Attempt], artifacts: Mapping[str, str]) -> Attempt | None:
    """Of C++, whose artifact is all that is run."""
    own = artifacts.get(candidate.id)
    if candidate.language is not LanguageName.CPP or own is None:
        return None
    for attempt in earlier:
        other = attempt.proposal.candidate
        is_equal = artifacts.get(other.id) == own and (other.entry, other.prepare) == (
            candidate.entry,
            candidate.prepare,
        )
        if is_equal and other.language is LanguageName.CPP:
            return attempt
    return None


def _incumbent(task: KernelTask, attempts: Sequence[Attempt]) -> Measurement | None:
    """The fastest that was measured on every public workload."""
    return next(
        (
            attempt.measurement
            for attempt in fastest_first(attempts)
            if attempt.measurement is not None and len(attempt.measurement.workloads) == len(task.public_workloads)
        ),
        None,
    )


def _in_words(rejected: Rejected) -> str:
    return f"{rejected.reason.value} on {rejected.workload or 'no workload'}: {rejected.evidence.message}"


def _read_proposals(blobs: BlobStore, names: Sequence[str]) -> tuple[Proposal, ...]:
    return tuple(Proposal.model_validate_json(blobs.get(name)) for name in names)
