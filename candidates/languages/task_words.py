"""What every language's brief says of a task in the same words: its tensors, its shapes, its error bound."""

from candidates.task import InputSpec, KernelTask, TensorSpec
from candidates.weight_formats import WeightFormat


def describe_tensor(spec: TensorSpec) -> str:
    shape = ", ".join(map(str, spec.shape))
    layout = "row-major" if spec.dim_order == tuple(range(len(spec.shape))) else f"dims in memory {spec.dim_order}"
    role = spec.role.value if isinstance(spec, InputSpec) else "output, to be written in full"
    values = f", values 0 to {spec.below - 1}" if isinstance(spec, InputSpec) and spec.below is not None else ""
    if spec.allocated is not None:
        layout += f" in memory of [{', '.join(map(str, spec.allocated))}], beyond the tensor neither read nor written"
    stored_as = spec.stored_as if isinstance(spec, InputSpec) else None
    kept = "" if stored_as is None else f", may be kept as {stored_as.value}"
    return f"[{shape}] {spec.element_type.value}, {layout}, {role}{values}{kept}"


def describe_shapes(task: KernelTask) -> str:
    """The public ones; of hidden ones only whether there are any."""
    weights = [f"- {workload.name}: {workload.calls_per_hour:.6g} calls per hour" for workload in task.public_workloads]
    others = "Other shapes of the same kind are judged too." if task.hidden_workloads else "No others are judged."
    return "\n".join(["Shapes, weighted by how often production calls them:", *weights, others])


def describe_formats(task: KernelTask) -> str:
    """What a kernel may rely on of parameters that need not be kept as they come; empty where there are none."""
    formats = dict.fromkeys(spec.stored_as for spec in task.inputs if spec.stored_as is not None)
    if not formats:
        return ""
    lines = [f"- {stored_as.value}: {_FORMATS[stored_as]}" for stored_as in formats]
    return "\n".join([_MAY_BE_KEPT, *lines, "", ""])


_MAY_BE_KEPT = """\
Parameters that may be kept in fewer bytes: they come to `prepare` as float32, in every case, and what the kernel reads
at each call is what `prepare` wrote. Of all values that it ever gets this holds:"""
_FORMATS = {
    WeightFormat.Q4_1: "in each block of 32 along the last dim there are a float16 scale and a float16 minimum that "
    "give every value bit for bit as the float32 number scale * code + minimum, codes 0 to 15 (not all of them need "
    "occur; a block of one value is its minimum). So 20 bytes a block hold it exactly, and the packed block computes "
    "the same function: sum(x * w) = scale * sum(x * code) + minimum * sum(x). Subtract 8 from the codes, and add "
    "8 * scale to the minimum, so that nothing cancels.",
    WeightFormat.Q8_0: "in each block of 32 along the last dim there is a float16 scale that gives every value bit for "
    "bit as the float32 number scale * code, codes -127 to 127. So 34 bytes a block hold it exactly.",
    WeightFormat.BFLOAT16: "nothing; the error that is allowed has room for rounding these parameters, and only these, "
    "to bfloat16.",
}


def allowed_scaled_error(task: KernelTask) -> str:
    """Of an element, as a share of the largest magnitude in its row."""
    return f"{task.error_bound.factor * task.error_bound.scaled_error:.3g}"
