"""The C ABI of a kernel for a task, and the adapter that gives every kernel the one signature which runners call.

C++ and CUDA differ in what an `Abi` says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Abi:
    """What a language's functions look like beyond their names."""

    types: Mapping[ElementType, str]
    headers: tuple[str, ...]
    """That declare the types."""
    last_argument: tuple[str, str] | None = None
    """Type and name of what every function but `..._bytes` gets last."""


CPP = Abi(
    types={
        ElementType.FLOAT32: "float",
        ElementType.BFLOAT16: "uint16_t",
        ElementType.FLOAT16: "uint16_t",
        ElementType.INT64: "int64_t",
        ElementType.INT32: "int32_t",
        ElementType.BOOL: "uint8_t",
    },
    headers=("stdint.h",),
)
CUDA = Abi(
    types={**CPP.types, ElementType.BFLOAT16: "__nv_bfloat16", ElementType.FLOAT16: "__half"},
    headers=("stdint.h", "cuda_runtime.h", "cuda_bf16.h", "cuda_fp16.h"),
    last_argument=("cudaStream_t", "stream"),
)


def call_signature(
    task: KernelTask,
    entry: str,
    *,
    has_prepared: bool,
    comment: Callable[[TensorSpec], str] | None = None,
    abi: Abi = CPP,
) -> str:
    """`extern "C" void kernel(const float* x, ..., float* y, const void* prepared, int64_t rows)`.

    Inputs in task order (states not const), outputs, `prepared` for a kernel with `prepare`, the axes' sizes.
    `comment` puts each tensor on a line of its own with what it says.
    """
    tensors = [(f"{pointer_type(spec, abi)} {spec.name}", comment(spec) if comment else "") for spec in _tensors(task)]
    if has_prepared:
        tensors.append(("const void* prepared", "what your prepare function wrote"))
    arguments = tensors + [(f"int64_t {axis}", "") for axis in task.axes] + [(last, "") for last in _last(abi)]
    if comment is None:
        return f'extern "C" void {entry}({", ".join(text for text, _ in arguments)})'
    lines = [
        f"    {text}{',' if index < len(arguments) - 1 else ')'}{f'  // {note}' if note else ''}"
        for index, (text, note) in enumerate(arguments)
    ]
    return "\n".join([f'extern "C" void {entry}(', *lines])


def prepare_signatures(task: KernelTask, prepare: str, abi: Abi = CPP) -> tuple[str, str]:
    """The function that says how many bytes `prepared` takes, and the one that fills them."""
    parameters = [f"{pointer_type(spec, abi)} {spec.name}" for spec in task.inputs_of(InputRole.PARAMETER)]
    arguments = [*parameters, "void* prepared", *_last(abi)]
    return (
        f'extern "C" int64_t {prepare}_bytes()',
        f'extern "C" void {prepare}({", ".join(arguments)})',
    )


def declarations(task: KernelTask, entry: str, prepare: str | None, abi: Abi = CPP) -> str:
    """Read before the candidate's source, so that the compiler holds its functions to them."""
    signatures = [call_signature(task, entry, has_prepared=prepare is not None, abi=abi)]
    if prepare is not None:
        signatures += prepare_signatures(task, prepare, abi)
    includes = [f"#include <{header}>" for header in abi.headers]
    return "\n".join([*includes, *(f"{signature};" for signature in signatures)]) + "\n"


def adapter_source(task: KernelTask, entry: str, prepare: str | None, abi: Abi = CPP) -> str:
    """A translation unit of its own, after `declarations`: no macro or pragma of the candidate reaches it."""
    last_parameter = "".join(f", {last}" for last in _last(abi))
    last_argument = () if abi.last_argument is None else (abi.last_argument[1],)
    arguments = [
        f"static_cast<{pointer_type(spec, abi)}>(tensors[{index}])" for index, spec in enumerate(_tensors(task))
    ]
    if prepare is not None:
        arguments.append("prepared")
    arguments += [f"sizes[{index}]" for index in range(len(task.axes))]
    arguments += last_argument
    lines = [
        # What function statics with destructors refer to; the compiler's start-up files would define it.
        'extern "C" { __attribute__((weak, visibility("hidden"))) void* __dso_handle = &__dso_handle; }',
        'extern "C" void compiler_agent_call(',
        "    [[maybe_unused]] void* const* tensors, [[maybe_unused]] const void* prepared,",
        f"    [[maybe_unused]] const int64_t* sizes{last_parameter}) {{",
        f"    {entry}({', '.join(arguments)});",
        "}",
    ]
    if prepare is not None:
        parameters = task.inputs_of(InputRole.PARAMETER)
        arguments = [
            f"static_cast<{pointer_type(spec, abi)}>(parameters[{index}])" for index, spec in enumerate(parameters)
        ]
        lines += [
            f'extern "C" int64_t compiler_agent_prepared_bytes() {{ return {prepare}_bytes(); }}',
            'extern "C" void compiler_agent_prepare('
            f"[[maybe_unused]] void* const* parameters, void* prepared{last_parameter}) {{",
            f"    {prepare}({', '.join([*arguments, 'prepared', *last_argument])});",
            "}",
        ]
    return "\n".join(lines) + "\n"


def exported_names(entry: str, prepare: str | None) -> tuple[str, ...]:
    """All that a kernel's shared object defines for others: the uniform entries and the plain ones."""
    names = ["compiler_agent_call", entry]
    if prepare is not None:
        names += ["compiler_agent_prepared_bytes", "compiler_agent_prepare", f"{prepare}_bytes", prepare]
    return tuple(names)


def _tensors(task: KernelTask) -> tuple[TensorSpec, ...]:
    return (*task.inputs, *task.outputs)


def _last(abi: Abi) -> tuple[str, ...]:
    return () if abi.last_argument is None else (" ".join(abi.last_argument),)


def pointer_type(spec: TensorSpec, abi: Abi = CPP) -> str:
    is_read_only = isinstance(spec, InputSpec) and spec.role is not InputRole.STATE
    return f"{'const ' if is_read_only else ''}{abi.types[spec.element_type]}*"
