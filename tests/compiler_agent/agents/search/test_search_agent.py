"""The search loop: first defaults, then the sampler, no candidate twice, and each reason to stop."""

import math

import pytest
from compiled_kernel import activation, make_task, parameter, tensor

from candidates.agent import Attempt, Budget, Proposals, Stop
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.device import BandwidthCeiling, DeviceCeilings
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.task import KernelTask
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected
from compiler_agent.agents.duplicates import key_of
from compiler_agent.agents.search import agent as agent_module
from compiler_agent.agents.search.agent import GENERATION_SIZE, SearchAgent
from compiler_agent.agents.search.cpp_space import cpp_space
from compiler_agent.agents.search.emit_cpp import emit_candidate
from compiler_agent.agents.search.emit_triton import write_triton_program
from compiler_agent.agents.search.program import NoProgram
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.staging import write_program
from compiler_agent.agents.search.triton_space import triton_space

PLENTY = Budget(seconds=1e6, attempts=1000)


@pytest.fixture(scope="module")
def linear_task() -> KernelTask:
    return make_task(
        "linear",
        "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)\n",
        [activation("x", "tokens", 16), parameter("weight", 32, 16)],
        [tensor("y", "tokens", 32)],
        [{"tokens": 1}, {"tokens": 8}],
    )


@pytest.fixture(scope="module")
def doubling_task() -> KernelTask:
    reference = "def reference(x):\n    return x + x\n"
    return make_task(
        "doubling", reference, [activation("x", "tokens", 16)], [tensor("y", "tokens", 16)], [{"tokens": 3}]
    )


def measured(task: KernelTask, proposal: Proposal, speedup: float, share_of_floor: float = 0.5) -> Attempt:
    workloads = tuple(
        WorkloadMeasurement(
            workload=workload.name,
            candidate_us=12.0 / speedup,
            kernel_only_us=10.0 / speedup,
            baselines_us={Baseline.EAGER: 12.0},
            best_baseline=Baseline.EAGER,
            speedup_over_best=speedup,
            interval=Interval(speedup, speedup),
            pairs=5,
            share_of_floor=share_of_floor,
            parameters_are_cold=True,
            decision=Decision.WIN,
        )
        for workload in task.workloads
    )
    return Attempt(
        proposal=proposal,
        verdict=Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=10, worst_error_in_bounds=0.5),
        measurement=Measurement(
            stage=Stage.SCREEN,
            device_id=task.device_id,
            threads=1,
            workloads=workloads,
            traffic_weighted_speedup=speedup,
            interval=Interval(speedup, speedup),
            decision=Decision.WIN,
            wall_s=1.0,
        ),
    )


def rejected(proposal: Proposal) -> Attempt:
    evidence = Evidence(message="wrong")
    return Attempt(
        proposal=proposal,
        verdict=Rejected(reason=Reason.WRONG_VALUES, workload=None, evidence=evidence, seed=1),
    )


def run_to_the_end(task: KernelTask, speedup_of, agent: SearchAgent | None = None) -> tuple[list[Attempt], Stop]:
    attempts: list[Attempt] = []
    while True:
        answer = (agent or SearchAgent()).propose(task, tuple(attempts), PLENTY)
        if isinstance(answer, Stop):
            return attempts, answer
        for proposal in answer.proposals:
            speedup = speedup_of(proposal.candidate.launch_parameters)
            attempts.append(rejected(proposal) if speedup is None else measured(task, proposal, speedup))


def test_first_generation_holds_the_one_to_begin_with_and_differs(linear_task: KernelTask) -> None:
    answer = SearchAgent().propose(linear_task, (), PLENTY)
    assert isinstance(answer, Proposals)
    program = write_program(linear_task)
    assert not isinstance(program, NoProgram)
    assert answer.proposals[0].candidate.launch_parameters == cpp_space(program).schedule().model_dump()
    assert len({proposal.candidate.id for proposal in answer.proposals}) == len(answer.proposals) == 4
    assert {proposal.candidate.prepare for proposal in answer.proposals} == {"prepare", None}


def test_a_fresh_agent_continues_exactly_as_the_one_that_was_killed(linear_task: KernelTask) -> None:
    agent = SearchAgent()
    first = agent.propose(linear_task, (), PLENTY)
    assert isinstance(first, Proposals)
    attempts = tuple(measured(linear_task, each, 1.0 + place) for place, each in enumerate(first.proposals))
    assert agent.propose(linear_task, attempts, PLENTY) == SearchAgent().propose(linear_task, attempts, PLENTY)


def test_no_candidate_is_proposed_twice_and_a_small_space_is_searched_whole(doubling_task: KernelTask) -> None:
    speedups = iter(1.05**step for step in range(1000))
    attempts, stop = run_to_the_end(doubling_task, lambda _: next(speedups))
    ids = [attempt.proposal.candidate.id for attempt in attempts]
    assert len(ids) == len(set(ids))
    program = write_program(doubling_task)
    assert not isinstance(program, NoProgram)
    assert stop.reason == "space_exhausted"
    # Every schedule's code, each once: none keeps what costs one operation, whatever is worth keeping.
    codes = [key_of(attempt.proposal.candidate) for attempt in attempts]
    everything = {key_of(emit_candidate(program, each)) for each in cpp_space(program).schedules()}
    assert len(codes) == len(set(codes)) < len(list(cpp_space(program).schedules()))
    assert set(codes) == everything


def test_what_is_pending_is_not_proposed_again_and_nothing_is_waited_for(linear_task: KernelTask) -> None:
    agent, pending = SearchAgent(), list[Proposal]()
    for _ in range(4):
        answer = agent.propose(linear_task, (), Budget(seconds=1e6, attempts=1000, pending=tuple(pending)))
        assert isinstance(answer, Proposals)
        assert answer.may_go_ahead
        pending += answer.proposals
    assert len({key_of(proposal.candidate) for proposal in pending}) == len(pending) == 4 + 3 * GENERATION_SIZE


def test_begins_with_the_best_of_earlier_searches_where_it_fits(linear_task: KernelTask) -> None:
    program = write_program(linear_task)
    assert not isinstance(program, NoProgram)
    schedule = Schedule(row_tile=2, column_tile=4, prefetch_bytes=4096)
    best = Proposal(candidate=emit_candidate(program, schedule), agent="search")
    foreign = Proposal(candidate=best.candidate.model_copy(update={"source": "written by hand"}), agent="llm")
    older = best.candidate.model_copy(update={"launch_parameters": {"row_tile": 3}})
    winners = [measured(linear_task, each, 2.0) for each in (foreign, Proposal(candidate=older, agent="search"), best)]
    agent = SearchAgent(past_winners=lambda task: winners)
    first = agent.propose(linear_task, (), PLENTY)
    assert isinstance(first, Proposals)
    assert first.proposals[0].candidate == best.candidate
    assert first.proposals[0].note.endswith("the best of an earlier search")
    usual = emit_candidate(program, cpp_space(program).first_schedules()[0])
    assert first.proposals[1].candidate == usual
    without = agent.propose(linear_task, (), PLENTY.model_copy(update={"recalls_past": False}))
    assert isinstance(without, Proposals)
    assert without.proposals[0].candidate == usual


def test_what_reads_too_many_bytes_to_win_is_ruled_out(
    linear_task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some panels are padded from 32 columns to 48 or 64."""
    level = BandwidthCeiling(working_set_bytes=1 << 20, bytes_per_s=1e9)
    ceilings = DeviceCeilings(
        device_id=linear_task.device_id,
        threads=1,
        read=(level, level),
        copy_bandwidth=(level, level),
        flops_per_s={"float32": 1e15},
        dispatch_us=0.0,
    )
    monkeypatch.setattr(agent_module, "MOST_DRAWS", 10_000)
    first = SearchAgent().propose(linear_task, (), PLENTY)
    assert isinstance(first, Proposals)
    # At most 24 us / (0.8 * 7.8 us) with padded weights, 24 us / (0.8 * 5.8 us) with the others.
    attempts = tuple(measured(linear_task, each, 5.0) for each in first.proposals)
    answers = [
        agent.propose(linear_task, attempts, PLENTY.model_copy(update={"attempts": 2000}))
        for agent in (
            SearchAgent(generation_size=2000),
            SearchAgent(generation_size=2000, ceilings=lambda *_: ceilings),
        )
    ]
    assert all(isinstance(answer, Proposals) for answer in answers)
    everything, some = ({key_of(each.candidate): each.candidate for each in answer.proposals} for answer in answers)
    assert some.keys() < everything.keys()

    def is_padded(candidate: Candidate) -> bool:
        schedule = Schedule.model_validate(candidate.launch_parameters)
        return schedule.weights == "panels" and 32 % (schedule.vector_width * schedule.column_tile) != 0

    assert {key for key, each in everything.items() if not is_padded(each)} == some.keys()


def test_search_finds_a_good_schedule_among_failures_before_it_stops(linear_task: KernelTask) -> None:
    def speedup_of(parameters: dict[str, int | float | str]) -> float | None:
        if parameters["weights"] == "rows":
            return None
        slope = math.log2(float(parameters["column_tile"])) + math.log2(float(parameters["row_tile"]) / 2)
        return 1.0 + slope - 0.2 * float(parameters["depth_unroll"]) + float(parameters["vector_width"]) / 16

    attempts, stop = run_to_the_end(linear_task, speedup_of)
    program = write_program(linear_task)
    assert not isinstance(program, NoProgram)
    best_possible = max(speedup_of(each.model_dump()) or 0.0 for each in cpp_space(program).schedules())
    speedups = [each.measurement.traffic_weighted_speedup for each in attempts if each.measurement is not None]
    assert stop.reason == "no_progress"
    assert max(speedups) >= 0.9 * best_possible
    assert len(attempts) < 80


def test_stops_at_the_floor(linear_task: KernelTask) -> None:
    first = SearchAgent().propose(linear_task, (), PLENTY)
    assert isinstance(first, Proposals)
    attempts = tuple(measured(linear_task, each, 2.0, share_of_floor=0.96) for each in first.proposals)
    stop = SearchAgent().propose(linear_task, attempts, PLENTY)
    assert isinstance(stop, Stop)
    assert stop.reason == "floor_reached"


def test_stops_when_the_budget_is_spent_and_proposes_no_more_than_it_allows(linear_task: KernelTask) -> None:
    few = SearchAgent().propose(linear_task, (), Budget(seconds=10, attempts=2))
    assert isinstance(few, Proposals)
    assert len(few.proposals) == 2
    for spent in (Budget(seconds=0, attempts=5), Budget(seconds=5, attempts=0)):
        stop = SearchAgent().propose(linear_task, (), spent)
        assert isinstance(stop, Stop)
        assert stop.reason == "budget"


def test_a_task_for_gpus_gets_triton_and_its_schedules_differ(linear_task: KernelTask) -> None:
    for task in (linear_task.aimed_at(("sm_90",)), linear_task.model_copy(update={"device_id": "cuda-0123456789ab"})):
        answer = SearchAgent().propose(task, (), PLENTY)
        assert isinstance(answer, Proposals)
        assert {proposal.candidate.language for proposal in answer.proposals} == {LanguageName.TRITON}
        assert answer.proposals[0].note == "default schedule"
        assert len({proposal.candidate.id for proposal in answer.proposals}) == len(answer.proposals) == 4
        attempts = tuple(measured(task, each, 1.0 + place) for place, each in enumerate(answer.proposals))
        following = SearchAgent().propose(task, attempts, PLENTY)
        assert isinstance(following, Proposals)
        assert following == SearchAgent().propose(task, attempts, PLENTY)
        assert not {each.candidate.id for each in following.proposals} & {
            each.candidate.id for each in answer.proposals
        }


def test_schedules_of_triton_fit_the_smallest_gpu_that_is_asked_for(linear_task: KernelTask) -> None:
    def longest_step(architectures: tuple[str, ...]) -> int:
        program = write_triton_program(linear_task.aimed_at(architectures))
        assert not isinstance(program, NoProgram)
        schedules = triton_space(program).schedules()
        some = [schedule for place, schedule in enumerate(schedules) if place % 11 == 0]
        return max(each.stages * (each.tile_rows + each.tile_columns) * each.tile_depth * 4 for each in some)

    assert longest_step(("sm_90",)) <= 163 * 1024
    assert longest_step(("sm_90", "gfx942")) <= 64 * 1024


def test_a_row_too_long_for_registers_is_swept_in_blocks() -> None:
    reference = "def reference(x):\n    return torch.softmax(x, -1)\n"
    workloads = [{"tokens": 2, "keys": 100_000}]
    task = make_task(
        "softmax", reference, [activation("x", "tokens", "keys")], [tensor("y", "tokens", "keys")], workloads
    )
    program = write_triton_program(task)
    assert not isinstance(program, NoProgram)
    space = triton_space(program)
    assert {schedule.sweep for schedule in (*space.first_schedules(), *space.schedules())} == {"blocks"}


def test_says_which_op_it_cannot_write() -> None:
    task = make_task(
        "sorting",
        "def reference(x):\n    return torch.sort(x, -1)[0]\n",
        [activation("x", "tokens", 5)],
        [tensor("y", "tokens", 5)],
        [{"tokens": 3}],
    )
    stop = SearchAgent().propose(task, (), PLENTY)
    assert isinstance(stop, Stop)
    assert stop.reason == "no_program"
    assert "sort" in stop.message
