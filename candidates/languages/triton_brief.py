"""What an author of a Triton kernel is told of a task: the exact Python signature, the rules, how it is judged."""

from collections.abc import Sequence

from candidates.languages.task_words import (
    allowed_scaled_error,
    describe_formats,
    describe_shapes,
    describe_tensor,
)
from candidates.languages.triton_rules import LAUNCH_OPTIONS
from candidates.task import InputRole, KernelTask


def entry_signature(task: KernelTask, entry: str, *, has_prepared: bool, has_comments: bool = False) -> str:
    """`def kernel(x, weight, y, rows):`: inputs in task order, outputs, [prepared,] the axes' sizes."""
    arguments = [(spec.name, describe_tensor(spec)) for spec in (*task.inputs, *task.outputs)]
    if has_prepared:
        arguments.append(("prepared", "what your prepare function returned"))
    arguments += [(axis, "int") for axis in task.axes]
    if not has_comments:
        return f"def {entry}({', '.join(name for name, _ in arguments)}):"
    return "\n".join([f"def {entry}(", *(f"    {name},  # {comment}" for name, comment in arguments), "):"])


def prepare_signature(task: KernelTask, prepare: str) -> str:
    return f"def {prepare}({', '.join(spec.name for spec in task.inputs_of(InputRole.PARAMETER))}):"


def write_brief(task: KernelTask, architectures: Sequence[str]) -> str:
    parameters = task.inputs_of(InputRole.PARAMETER)
    signature = entry_signature(task, "kernel", has_prepared=False, has_comments=True)
    return _BRIEF.format(
        op=task.op,
        reference=task.reference.strip(),
        signature=signature,
        prepare=f"    {prepare_signature(task, 'pack')}" if parameters else "    (this task has no parameters)",
        prepared=entry_signature(task, "kernel", has_prepared=True),
        example=example_source(task),
        scaled_error=allowed_scaled_error(task),
        architectures=", ".join(architectures),
        options=", ".join(sorted(LAUNCH_OPTIONS)),
        formats=describe_formats(task),
        shapes=describe_shapes(task),
    )


def example_source(task: KernelTask) -> str:
    """The form of a file for this task; it launches, and writes zeros to the outputs instead of the result."""
    tensors = (*task.inputs, *task.outputs)
    pointers = ", ".join(f"{spec.name}_ptr" for spec in tensors)
    stores = [
        f"    tl.store({spec.name}_ptr + at, tl.zeros([BLOCK], tl.float32), mask=at < {spec.name}_size)"
        for spec in task.outputs
    ]
    sizes = [f"{spec.name}_size" for spec in task.outputs]
    most = "max(" + ", ".join(f"{spec.name}.numel()" for spec in task.outputs) + ", 1)"
    passed = ", ".join([*(spec.name for spec in tensors), *(f"{spec.name}.numel()" for spec in task.outputs)])
    return "\n".join(
        [
            "# launch: BLOCK=1024 num_warps=4",
            "import triton",
            "import triton.language as tl",
            "",
            "",
            "@triton.jit",
            f"def _compute({', '.join(filter(None, [pointers, *sizes]))}, BLOCK: tl.constexpr):",
            "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            *(stores or ["    tl.debug_barrier()"]),
            "",
            "",
            entry_signature(task, "kernel", has_prepared=False),
            f"    grid = (triton.cdiv({most}, LAUNCH_BLOCK),)",
            f"    _compute[grid]({passed}, BLOCK=LAUNCH_BLOCK, num_warps=LAUNCH_num_warps)",
        ]
    )


_BRIEF = """\
Write a Triton kernel for the op {op}, faster than PyTorch on the shapes below. It replaces this function:

{reference}

Write one Python file that defines exactly this host function (an optional first comment line `# entry: NAME` gives it
another name) and the @triton.jit functions that it launches:

{signature}

If weights are better read in another layout, add `# prepare: pack` at the top of the file and define

{prepare}

which runs once per session and returns a tensor or a tuple of tensors; the kernel becomes

    {prepared}

{formats}The form of such a file (this one launches and compiles, its result is wrong):

{example}

Rules
- Tensors are torch tensors on the GPU with the shapes above, dense, strides as their dims lie in memory. Inputs are
  only read, except states, which you update in place. Write every element of every output.
- All computation is in @triton.jit functions. `kernel` may allocate scratch memory (torch.empty and zeros with
  device=x.device, empty_like, new_empty), make views, zero_ and fill_, and work with Python numbers; any other PyTorch
  op in it is a library call and refused. In `prepare` PyTorch ops are allowed.
- Imports: torch, triton, triton.language as tl, math. At module level only imports, constants and functions stand;
  nothing is kept from call to call. No classes, try, with, global, :=, **, getattr or names with two underscores; no
  inline assembly, libdevice, printing, tensor descriptors, triton.autotune, streams or graphs.
- A launch is a statement `name[grid](...)` of a @triton.jit function; `grid` is a tuple or a function of the launch's
  arguments. Options: {options}. Inside kernels call tl functions and @triton.jit functions only.
- The result of each element may differ from exact arithmetic by {scaled_error} of the largest magnitude in its row
  (last dim) plus one unit in the last place of the output's type. Two calls on equal inputs must agree bit for bit.
- tl.dot of float32 rounds its inputs to TF32 unless you say input_precision="ieee". A multiplication and an addition
  may be fused.
- Values to be tuned go to a comment line `# launch: BLOCK=1024 num_warps=4` and are read as the globals LAUNCH_BLOCK
  and LAUNCH_num_warps: they are the search space of a tuner. Give them to kernels as tl.constexpr arguments; other
  globals that kernels read are made by NAME = tl.constexpr(value).
- Every launch must compile for each of {architectures}, and its shared memory must fit there.
  Masks must guard every access out of a tensor: the axes come in other sizes too.
  What a masked tl.load without `other` gives is undefined (NaN in the interpreter): say other=0.0 where it counts.
- Without a GPU the file is judged by Triton's interpreter on the CPU, every element, and compiled for each of these
  architectures; it is timed on a GPU only.

{shapes}
"""
