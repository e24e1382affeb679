import torch

from candidates.error_bound import allowed_error, derive_error_bound
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
