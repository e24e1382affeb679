"""The shapes that an interpreter gets: odd ones, the task's largest that fits, and hidden ones, which stay hidden."""

import numpy as np
from judge_tasks import RMSNORM, input_spec, make_task, output_spec

from candidates.judge.reduced_shapes import reduced_task


def test_an_interpreter_gets_the_largest_and_the_hidden_shapes_that_fit() -> None:
    reduced = reduced_task(RMSNORM, np.random.default_rng(0))
    rows = {workload.axes["rows"]: workload.is_hidden for workload in reduced.workloads}
    assert rows == {1: False, 3: False, 8: False, 33: False, 5: True}


def test_an_interpreter_gets_no_shape_that_is_too_large_for_it() -> None:
    task = make_task(
        "square",
        "def reference(x):\n    return x * x\n",
        [input_spec("x", ("rows", 64))],
        [output_spec("y", ("rows", 64))],
        rows=(2, 4000),
        hidden_rows=(4001,),
    )
    assert {workload.axes["rows"] for workload in reduced_task(task, np.random.default_rng(0)).workloads} == {1, 2, 3}
