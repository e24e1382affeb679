import torch

from candidates.error_bound import allowed_error, derive_error_bound, find_errors_nearby
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload


def _task(reference: str, element_type: str = "float32") -> KernelTask:
    return KernelTask(
        op="op",
        site="op",
        level="leaf",
        reference=f"def reference(x):\n    return {reference}\n",
        inputs=(
            InputSpec(name="x", element_type=element_type, shape=("rows", 512), dim_order=(0, 1), role="activation"),
        ),
        outputs=(TensorSpec(name="output", element_type=element_type, shape=("rows", 512), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 4}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-0",
    )


def test_rows_that_cancel_do_not_loosen_the_bound_of_others():
    """A constant row normalises to nothing: relative to nothing any error is infinite."""
    for element_type, working_error in (("float32", 1e-5), ("bfloat16", 0.05)):
        bound = derive_error_bound(_task("torch.nn.functional.layer_norm(x, (512,))", element_type))
        assert bound.scaled_error < working_error
        zeros = torch.zeros(4, 512, dtype=torch.float64)
        ones = torch.ones(4, 512, dtype=torch.float64)
        working_type = getattr(torch, element_type)
        assert float(allowed_error(bound, zeros, working_type).max()) <= 4 * bound.cancelled_error + 1e-30
        assert float(allowed_error(bound, ones, working_type).max()) < 0.25


def test_the_bound_scales_with_the_row():
    bound = derive_error_bound(_task("x * x.sigmoid()"))
    exact = torch.tensor([[1.0, 0.5], [1e-3, 0.0]], dtype=torch.float64)
    allowed = allowed_error(bound, exact, torch.float32)
    assert float(allowed[0].max()) < 1e-5
    assert float(allowed[1].max()) < 1e-8


def test_errors_nearby_are_of_the_row_and_leave_the_inputs():
    task = _task("x * 0.3 - x.flip(0) * 0.7")
    x = torch.randn(4, 512, generator=torch.Generator().manual_seed(3))
    before = x.clone()
    errors = find_errors_nearby(task, {"x": x})["output"]
    assert errors.shape == (4, 1)
    assert 1e-8 < float(errors.min()) < float(errors.max()) < 1e-6
    assert torch.equal(x, before)
    # Parameters may come in float64: it is the op in its own types that is asked.
    assert torch.equal(find_errors_nearby(task, {"x": x.double()})["output"], errors)


def test_what_is_exact_has_no_errors_nearby():
    task = _task("x.flip(-1) * 2", "bfloat16")
    assert float(find_errors_nearby(task, {"x": torch.ones(4, 512, dtype=torch.bfloat16)})["output"].max()) < 1e-30
