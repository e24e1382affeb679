"""The rmsnorm definition of these tests as a task, made once: it runs a sandbox."""

import pytest
from suite_files import Imported, write_rmsnorm_dataset

from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from candidates.task import KernelTask
from kernel_sandbox.bubblewrap import BubblewrapSandbox


@pytest.fixture(scope="session")
def imported_rmsnorm(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    (problem,) = read_problems(write_rmsnorm_dataset(tmp_path_factory.mktemp("dataset")))
    task = make_task(problem, BubblewrapSandbox(), device_id="cpu-test", threads=1)
    assert isinstance(task, KernelTask), task
    assert problem.documents is not None
    return Imported(task=task, documents=problem.documents)
