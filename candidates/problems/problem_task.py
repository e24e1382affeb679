"""A problem becomes a KernelTask, by the same path as a served op: exported, bounded, admitted."""

from candidates.exported_op import ExportedOp, Obstructed, admit
from candidates.extraction import Obstacle
from candidates.problems.problem import DefinitionSource, Problem
from candidates.problems.sandboxed_export import export_in_sandbox
from candidates.task import ErrorBound, KernelTask, SiteLevel, TensorSpec, Workload
from kernel_sandbox.sandbox import Sandbox

MOST_CALL_BYTES = 256 << 20
"""The judge holds a call several times over: two outputs, the float64 oracle, what it compares."""


def make_task(problem: Problem, sandbox: Sandbox, *, device_id: str, threads: int) -> KernelTask | Obstacle:
    """Seconds to minutes: the problem's Python runs in the sandbox, its reference here.

    Raises SandboxError for the machine's faults.
    """
    source = problem.source
    if isinstance(source, Obstacle):
        return source
    try:
        exported = export_in_sandbox(sandbox, source)
        outputs = exported.outputs
        if isinstance(source, DefinitionSource):
            outputs = _declared_outputs(source, exported)
        task = KernelTask(
            op=problem.name,
            site=problem.site,
            level=SiteLevel.LEAF,
            reference=exported.reference,
            inputs=exported.inputs,
            outputs=outputs,
            axes=source.axes if isinstance(source, DefinitionSource) else (),
            workloads=exported.workloads,
            covered_share=source.covered_share if isinstance(source, DefinitionSource) else 1.0,
            error_bound=ErrorBound(scaled_error=0.0),
            device_id=device_id,
            threads=threads,
        )
        _require_room(task)
        return admit(task)
    except Obstructed as obstructed:
        return Obstacle(reason=str(obstructed))
    except (RuntimeError, TypeError, IndexError) as error:
        # The reference came out of the user's file; what it raises in float64 or on our inputs is the file's doing.
        return Obstacle(reason=f"its reference fails: {error}")


def _declared_outputs(source: DefinitionSource, exported: ExportedOp) -> tuple[TensorSpec, ...]:
    if len(exported.outputs) != len(source.outputs):
        raise Obstructed(f"its run returns {len(exported.outputs)} tensors, the definition says {len(source.outputs)}")
    for declared, found in zip(source.outputs, exported.outputs, strict=True):
        if found.element_type is not declared.element_type:
            raise Obstructed(
                f"its run returns {found.element_type.value} for {declared.name}, the definition says "
                f"{declared.element_type.value}"
            )
        for workload in exported.workloads:
            if found.sizes(workload.axes) != declared.sizes(workload.axes):
                raise Obstructed(
                    f"its run returns {list(found.shape)} for {declared.name}, the definition says "
                    f"{list(declared.shape)}"
                )
    return source.outputs


def _require_room(task: KernelTask) -> None:
    def call_bytes(workload: Workload) -> int:
        return sum(spec.size_bytes(workload.axes) for spec in (*task.inputs, *task.outputs))

    largest = max(task.workloads, key=call_bytes)
    if call_bytes(largest) > MOST_CALL_BYTES:
        raise Obstructed(
            f"its tensors take {call_bytes(largest) / 2**20:.0f} MiB a call at {largest.name}, of "
            f"{MOST_CALL_BYTES >> 20} MiB that can be judged: make its sizes smaller"
        )
