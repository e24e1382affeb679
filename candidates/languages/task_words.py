"""What every language's brief says of a task in the same words: its tensors, its shapes, its error bound."""

from candidates.task import InputSpec, KernelTask, TensorSpec


def describe_tensor(spec: TensorSpec) -> str:
    shape = ", ".join(map(str, spec.shape))
    layout = "row-major" if spec.dim_order == tuple(range(len(spec.shape))) else f"dims in memory {spec.dim_order}"
    role = spec.role.value if isinstance(spec, InputSpec) else "output, to be written in full"
    values = f", values 0 to {spec.below - 1}" if isinstance(spec, InputSpec) and spec.below is not None else ""
    if spec.allocated is not None:
        layout += f" in memory of [{', '.join(map(str, spec.allocated))}], beyond the tensor neither read nor written"
    return f"[{shape}] {spec.element_type.value}, {layout}, {role}{values}"


def describe_shapes(task: KernelTask) -> str:
    """The public ones; of hidden ones only whether there are any."""
    weights = [f"- {workload.name}: {workload.calls_per_hour:.6g} calls per hour" for workload in task.public_workloads]
    others = "Other shapes of the same kind are judged too." if task.hidden_workloads else "No others are judged."
    return "\n".join(["Shapes, weighted by how often production calls them:", *weights, others])


def allowed_scaled_error(task: KernelTask) -> str:
    """Of an element, as a share of the largest magnitude in its row."""
    return f"{task.error_bound.factor * task.error_bound.scaled_error:.3g}"
