"""The exam's own problems: each is a task that can be solved, small enough to be judged in seconds."""

import pytest
from judge_tasks import BUILDER, JUDGE, SANDBOX

from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from candidates.task import KernelTask
from candidates.verdict import Accepted, Rejected
from compiler_agent.commands.rank import EXAM_TASKS
from tests.compiler_agent.plain_kernels import plain_kernel

PROBLEMS = {problem.name: problem for problem in read_problems(EXAM_TASKS)}


def test_there_are_eight_of_them() -> None:
    assert sorted(PROBLEMS) == ["embedding", "layernorm", "linear_few_rows", "max_over_tokens", "rmsnorm_residual",
                                "rotary", "softmax", "swiglu"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_is_a_task_that_a_plain_kernel_solves(name: str) -> None:
    task = make_task(PROBLEMS[name], SANDBOX, device_id="cpu-test", threads=1)
    assert isinstance(task, KernelTask), task
    kernel = plain_kernel(task)
    artifact = BUILDER.build(task, kernel)
    assert not isinstance(artifact, Rejected), artifact
    assert isinstance(JUDGE.judge(task, kernel, artifact), Accepted)


@pytest.mark.slow
def test_a_problem_is_the_same_task_each_time() -> None:
    """An exam is found again by its tasks."""
    once, again = (make_task(PROBLEMS["layernorm"], SANDBOX, device_id="cpu-test", threads=1) for _ in range(2))
    assert isinstance(once, KernelTask)
    assert once == again
