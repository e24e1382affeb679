"""States that grow into memory reserved for them: the spec, the draw, the judge, the clock and the sanitizers."""

import numpy as np
import pytest
import torch

from candidates.candidate import Candidate, LanguageName
from candidates.error_bound import derive_error_bound
from candidates.inputs import Distribution, draw_inputs, whole_allocation
from candidates.judge.admission import find_weaknesses
from candidates.judge.outputs import Fault, check_outputs, find_written_beyond
from candidates.judge.sanitizers import Sanitized, Sanitizers
from candidates.languages.cpp import CppLanguage
from candidates.reference import run_reference
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Accepted, Reason, Rejected
from tests.judge_tasks import INCLUDES, SANDBOX, judge_source

HEADS, WIDTH = 2, 8
REFERENCE = """\
def reference(added, keys):
    keys[:, :, -1:].copy_(added * 2.0)
    return keys.sum(2)
"""
RIGHT = """
extern "C" void kernel(const float* added, float* keys, float* y, int64_t batch, int64_t context, int64_t capacity) {
  for (int64_t row = 0; row < batch * 2; ++row) {
    float* own = keys + row * capacity * 8;
    for (int d = 0; d < 8; ++d) {
      own[(context - 1) * 8 + d] = added[row * 8 + d] * 2.0f;
      double sum = 0;
      for (int64_t t = 0; t < context; ++t) sum += own[t * 8 + d];
      y[row * 8 + d] = sum;
    }
    AT_END
  }
}
"""


def workload(batch: int, context: int, capacity: int, *, is_hidden: bool = False) -> Workload:
    axes = {"batch": batch, "context": context, "capacity": capacity}
    return Workload(axes=axes, calls_per_hour=10.0, is_hidden=is_hidden)


def growing_task() -> KernelTask:
    state: tuple[int | str, ...] = ("batch", HEADS, "context", WIDTH)
    task = KernelTask(
        op="append",
        site="tests.append",
        level=SiteLevel.LEAF,
        reference=REFERENCE,
        inputs=(
            InputSpec(
                name="added",
                element_type=ElementType.FLOAT32,
                shape=("batch", HEADS, 1, WIDTH),
                dim_order=(0, 1, 2, 3),
                role=InputRole.ACTIVATION,
            ),
            InputSpec(
                name="keys",
                element_type=ElementType.FLOAT32,
                shape=state,
                dim_order=(0, 1, 2, 3),
                allocated=("batch", HEADS, "capacity", WIDTH),
                role=InputRole.STATE,
            ),
        ),
        outputs=(
            TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("batch", HEADS, WIDTH), dim_order=(0, 1, 2)),
        ),
        axes=("batch", "context", "capacity"),
        workloads=(workload(1, 5, 8), workload(3, 9, 16), workload(2, 7, 7, is_hidden=True)),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-test",
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


@pytest.fixture(scope="module")
def task() -> KernelTask:
    return growing_task()


def drawn(task: KernelTask, of: Workload) -> dict[str, torch.Tensor]:
    return draw_inputs(task, of, Distribution.NORMAL, np.random.default_rng(1))


def test_strides_follow_what_is_allocated(task: KernelTask) -> None:
    keys, axes = task.inputs[1], task.workloads[1].axes
    assert keys.sizes(axes) == (3, HEADS, 9, WIDTH)
    assert keys.strides(axes) == (HEADS * 16 * WIDTH, 16 * WIDTH, WIDTH, 1)
    assert keys.size_bytes(axes) == 4 * 3 * HEADS * 16 * WIDTH
    assert keys.content_bytes(axes) == 4 * 3 * HEADS * 9 * WIDTH
    assert task.shape_axes == ("batch", "context")


def test_a_dense_tensor_says_nothing_of_allocation(task: KernelTask) -> None:
    added, keys = (spec.model_dump(mode="json") for spec in task.inputs)
    assert "allocated" not in added
    assert keys["allocated"] == ["batch", HEADS, "capacity", WIDTH]
    assert KernelTask.model_validate_json(task.model_dump_json()) == task


def test_a_state_must_fit_into_its_memory(task: KernelTask) -> None:
    with pytest.raises(ValueError, match="outgrows its memory"):
        KernelTask.model_validate(task.model_dump() | {"workloads": (workload(1, 9, 8),)})
    with pytest.raises(ValueError, match="does not lie in what is allocated"):
        TensorSpec(name="x", element_type=ElementType.FLOAT32, shape=(4,), dim_order=(0,), allocated=(3,))


def test_what_lies_beyond_a_drawn_state_is_no_number(task: KernelTask) -> None:
    of = task.workloads[0]
    keys = drawn(task, of)["keys"]
    whole = whole_allocation(keys, task.inputs[1], of.axes)
    assert torch.isfinite(keys).all()
    assert whole[:, :, 5:].isnan().all()


def test_the_task_is_admitted(task: KernelTask) -> None:
    assert find_weaknesses(task) == []


def test_a_right_kernel_is_accepted(task: KernelTask) -> None:
    verdict = judge_source(task, RIGHT.replace("AT_END", ""))
    assert isinstance(verdict, Accepted), verdict


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("if (context < capacity) own[context * 8] = 1.0f;", Reason.WROTE_OUT_OF_BOUNDS),
        ("own[0] *= 1.0000001f;", Reason.WRONG_VALUES),
        ("own[(context - 1) * 8] = 0.0f;", Reason.WRONG_VALUES),
    ],
)
def test_writes_anywhere_but_the_new_places_are_seen(task: KernelTask, fault: str, reason: Reason) -> None:
    verdict = judge_source(task, RIGHT.replace("AT_END", fault))
    assert isinstance(verdict, Rejected), verdict
    assert verdict.reason is reason


def test_reading_beyond_the_state_is_seen(task: KernelTask) -> None:
    wrong = RIGHT.replace("AT_END", "y[row * 8] += 0.0f * own[capacity * 8 - 1];")
    verdict = judge_source(task, wrong)
    assert isinstance(verdict, Rejected), verdict


def test_a_timed_call_is_held_to_its_place_too(task: KernelTask) -> None:
    of = task.workloads[0]
    before = drawn(task, of)
    after = whole_allocation(before["keys"], task.inputs[1], of.axes).clone()
    right = run_reference(task, before)
    after[:, :, :5] = right["keys"]
    got = {"y": right["y"], "keys": after[:, :, :5]}
    assert isinstance(check_outputs(task, of, before, got, seed=0), float)
    after[0, 1, 7, 3] = 0.0
    assert isinstance(find_written_beyond(task, of, before, got), Fault)
    assert isinstance(check_outputs(task, of, before, got, seed=0), Rejected)


def test_sanitizers_run_it_on_reduced_shapes(task: KernelTask) -> None:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + RIGHT.replace("AT_END", ""))
    found = Sanitizers(SANDBOX, CppLanguage()).check(task, candidate, seed=1)
    assert isinstance(found, Sanitized), found
    for shape in found.shapes:
        axes = dict(part.split("=") for part in shape.split(","))
        assert int(axes["context"]) <= int(axes["capacity"])
    assert len(found.shapes) > 2
    past_the_end = RIGHT.replace("AT_END", "if (row == batch * 2 - 1) own[capacity * 8] = 0;")
    wrong = candidate.model_copy(update={"source": INCLUDES + past_the_end})
    assert isinstance(Sanitizers(SANDBOX, CppLanguage()).check(task, wrong, seed=1), Rejected)


def test_the_brief_says_where_the_state_lies(task: KernelTask) -> None:
    brief = CppLanguage().brief(task)
    assert "float* keys" in brief
    assert f"in memory of [batch, {HEADS}, capacity, {WIDTH}], beyond the tensor neither read nor written" in brief
