"""The check of a GPU: facts, ceilings, cases, ops, under one budget; whatever fails is told and ends nothing else."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from candidates.candidate import LanguageName
from candidates.measurement import Measurement
from candidates.verdict import Rejected, Verdict
from compiler_agent.gpu_check.cases import (
    CASES,
    Case,
    device_result,
    judge_result,
    not_run,
    race_result,
    sanitizer_result,
)
from compiler_agent.gpu_check.children import ChildEnd, ChildEnding
from compiler_agent.gpu_check.results import (
    CaseAnswer,
    CaseResult,
    CasesJob,
    CeilingsAnswer,
    CeilingsJob,
    FactsAnswer,
    FactsJob,
    GpuCeilings,
    GpuDocument,
    Job,
    MissingOp,
    OpAnswer,
    OpJob,
)

BUDGET_S = 450.0
"""Of all; the command may take 8 minutes."""
CEILINGS_S, CASE_S, CASES_S, SANITIZED_S, OP_S = 60.0, 5.0, 120.0, 40.0, 60.0
_START_S = 20.0  # of a child: torch, CUDA's context, the first compilation
DTYPE = "bfloat16"


class NoGpu(Exception):
    """There is none; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """The path of every candidate, as far as this machine has it."""

    build: Callable[[Case], bytes | Rejected]
    """Raises SandboxError where a compiler is missing."""
    judge: Callable[[Case, bytes], Verdict]
    race: Callable[[Case, bytes, GpuCeilings], Measurement | Rejected]


@dataclass(slots=True)
class GpuCheck:
    run_child: Callable[[Job, float], ChildEnd]
    open_court: Callable[[FactsAnswer], Court]
    ops: Mapping[str, Sequence[int]]
    """Rows of each op."""
    uuid: str | None
    seed: int
    say: Callable[[str], None]
    sanitize: Callable[[Job, float], str] | None = None
    """compute-sanitizer's log of a job; None where it is not installed."""
    budget_s: float = BUDGET_S
    cases: Sequence[Case] = CASES
    notes: list[str] = field(default_factory=list)

    def run(self) -> GpuDocument:
        """Raises NoGpu."""
        began_s = time.monotonic()
        deadline_s = began_s + self.budget_s
        facts = self._ask_facts()
        self.uuid = str(facts.device["uuid"])
        self.say(f"{facts.device['model']} ({facts.device['architecture']}), {self.uuid}")
        ceilings = self._measure_ceilings(deadline_s)
        court = self.open_court(facts)
        results = self._try_cases(court, ceilings, min(time.monotonic() + CASES_S, deadline_s))
        attacks = {case.file for case in self.cases if case.is_attack}
        ops = self._hold_contests(ceilings, deadline_s) if ceilings else [self._missing("failed", "no ceilings")]
        return GpuDocument(
            device=facts.device,
            fingerprint=facts.fingerprint.id,
            ceilings=ceilings,
            correctness=tuple(result for file, result in results if file not in attacks),
            attacks=tuple(result for file, result in results if file in attacks),
            ops=tuple(op for answer in ops for op in answer.measured),
            ops_without_times=tuple(op for answer in ops for op in answer.missing),
            notes=tuple(dict.fromkeys([*self.notes, *(note for answer in ops for note in answer.notes)])),
            seed=self.seed,
            wall_s=time.monotonic() - began_s,
        )

    def _ask_facts(self) -> FactsAnswer:
        ended = self.run_child(FactsJob(uuid=self.uuid), _START_S * 3)
        for answer in ended.answers:
            if isinstance(answer, FactsAnswer):
                return answer
        raise NoGpu(ended.log.strip().splitlines()[-1] if ended.log.strip() else f"the GPU's process {ended.ending}")

    def _measure_ceilings(self, deadline_s: float) -> GpuCeilings | None:
        self.say("measuring ceilings")
        limit_s = max(1.0, min(CEILINGS_S, deadline_s - time.monotonic()))
        ended = self.run_child(CeilingsJob(uuid=self.uuid, limit_s=limit_s), limit_s + _START_S)
        for answer in ended.answers:
            if isinstance(answer, CeilingsAnswer):
                return answer.ceilings
        self.notes.append(f"no ceilings: {_why(ended)}")
        return None

    def _try_cases(self, court: Court, ceilings: GpuCeilings | None, deadline_s: float) -> list[tuple[str, CaseResult]]:
        results: list[tuple[str, CaseResult]] = []
        artifacts: dict[str, str | None] = {}
        with TemporaryDirectory() as folder:
            for case in self.cases:
                if time.monotonic() > deadline_s:
                    results.append((case.file, not_run(case, "judge", "no time left")))
                    continue
                self.say(f"judging {case.file}")
                built, result = _try_in_court(court, case)
                results.append((case.file, result))
                if case.raced:
                    self.say(f"racing {case.file}")
                    results.append((case.file, _race(court, case, built, ceilings)))
                if not case.on_device:
                    continue
                if case.language is LanguageName.TRITON:
                    artifacts[case.file] = None
                elif built is not None:
                    path = Path(folder) / f"{case.name}.so"
                    path.write_bytes(built)
                    artifacts[case.file] = str(path)
                else:
                    results.append((case.file, not_run(case, "device", "it was not compiled")))
            return results + self._run_on_device(artifacts, deadline_s) + self._sanitize(artifacts, deadline_s)

    def _run_on_device(self, artifacts: Mapping[str, str | None], deadline_s: float) -> list[tuple[str, CaseResult]]:
        """All in one process, and what is left in another one after each that the device does not survive."""
        known = {case.file: case for case in self.cases}
        results: list[tuple[str, CaseResult]] = []
        left = dict(artifacts)
        while left:
            if time.monotonic() > deadline_s:
                return results + [(file, not_run(known[file], "device", "no time left")) for file in left]
            self.say(f"running {', '.join(left)} on the GPU")
            job = CasesJob(uuid=self.uuid, artifacts=left, seed=self.seed)
            ended = self.run_child(job, _START_S + CASE_S * len(left))
            for answer in ended.answers:
                if isinstance(answer, CaseAnswer) and left.pop(answer.case, ...) is not ...:
                    results.append((answer.case, device_result(known[answer.case], answer.found, answer.detail)))
            if left:
                file = next(iter(left))
                del left[file]
                results.append((file, _unanswered(known[file], ended)))
        return results

    def _sanitize(self, artifacts: Mapping[str, str | None], deadline_s: float) -> list[tuple[str, CaseResult]]:
        results = []
        for case in self.cases:
            if not case.sanitized:
                continue
            if self.sanitize is None:
                result = not_run(case, "sanitizer", "no compute-sanitizer on PATH: it comes with NVIDIA's CUDA toolkit")
            elif case.file not in artifacts or time.monotonic() > deadline_s:
                result = not_run(case, "sanitizer", "it was not compiled, or no time is left")
            else:
                self.say(f"running {case.file} under compute-sanitizer")
                job = CasesJob(
                    uuid=self.uuid, artifacts={case.file: artifacts[case.file]}, seed=self.seed, has_guards=False
                )
                result = sanitizer_result(case, self.sanitize(job, SANITIZED_S))
            results.append((case.file, result))
        return results

    def _hold_contests(self, ceilings: GpuCeilings, deadline_s: float) -> list[OpAnswer]:
        answers: list[OpAnswer] = []
        names = random.Random(self.seed).sample(sorted(self.ops), len(self.ops))
        for index, name in enumerate(names):
            rows = tuple(self.ops[name])
            left_s = deadline_s - time.monotonic()
            limit_s = min(OP_S, left_s / (len(names) - index) - _START_S)
            if limit_s <= 0:
                answers.append(self._missing("no_time_left", "the budget was spent before it began", name))
                continue
            self.say(f"timing {name}")
            job = OpJob(uuid=self.uuid, op=name, rows=rows, seed=self.seed, ceilings=ceilings, limit_s=limit_s)
            ended = self.run_child(job, limit_s + _START_S)
            given = [answer for answer in ended.answers if isinstance(answer, OpAnswer)]
            answers += given
            done = {op.rows for answer in given for op in answer.measured}
            done |= {op.rows for answer in given for op in answer.missing}
            if ended.ending is not ChildEnding.DONE or done != set(rows):
                answers.append(self._missing(_reason(ended), _why(ended), name, tuple(sorted(set(rows) - done))))
        return answers

    def _missing(self, why: str, detail: str, name: str | None = None, rows: Sequence[int] | None = None) -> OpAnswer:
        names = [name] if name is not None else sorted(self.ops)
        return OpAnswer(
            missing=tuple(
                MissingOp.model_validate(
                    {"op": each, "rows": count, "dtype": DTYPE, "why": why, "detail": detail[:1000]}
                )
                for each in names
                for count in (self.ops[each] if rows is None else rows)
            )
        )


def _try_in_court(court: Court, case: Case) -> tuple[bytes | None, CaseResult]:
    """What was built, also where the judge then failed, and what the judge says."""
    built: bytes | None = None
    try:
        made = court.build(case)
        if isinstance(made, Rejected):
            return None, judge_result(case, made)
        built = made
        return built, judge_result(case, court.judge(case, made))
    except Exception as error:  # noqa: BLE001  (a missing compiler, a sandbox that fails: the others go on)
        return built, not_run(case, "judge", f"{type(error).__name__}: {error}"[:500])


def _race(court: Court, case: Case, built: bytes | None, ceilings: GpuCeilings | None) -> CaseResult:
    if built is None or ceilings is None:
        return not_run(case, "race", "it was not compiled, or there are no ceilings")
    try:
        return race_result(case, court.race(case, built, ceilings))
    except Exception as error:  # noqa: BLE001  (as above)
        return not_run(case, "race", f"{type(error).__name__}: {error}"[:500])


def _unanswered(case: Case, ended: ChildEnd) -> CaseResult:
    if ended.ending is ChildEnding.NO_DEVICE:
        return not_run(case, "device", _why(ended))
    return device_result(case, ended.ending.value, _why(ended))


def _reason(ended: ChildEnd) -> str:
    return {ChildEnding.DEVICE_FAULT: "device_fault", ChildEnding.OUT_OF_TIME: "no_time_left"}.get(
        ended.ending, "failed"
    )


def _why(ended: ChildEnd) -> str:
    lines = ended.log.strip().splitlines()
    return f"its process ended as {ended.ending.value}{': ' + lines[-1] if lines else ''}"[:500]
