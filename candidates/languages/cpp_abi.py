"""The C ABI of a kernel for a task, and the adapter that gives every kernel the one signature which runners call."""

from collections.abc import Callable

from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec

_TYPES = {
    ElementType.FLOAT32: "float",
    ElementType.BFLOAT16: "uint16_t",
    ElementType.FLOAT16: "uint16_t",
    ElementType.INT64: "int64_t",
    ElementType.INT32: "int32_t",
    ElementType.BOOL: "uint8_t",
}


def call_signature(
    task: KernelTask, entry: str, *, has_prepared: bool, comment: Callable[[TensorSpec], str] | None = None
) -> str:
    """`extern "C" void kernel(const float* x, ..., float* y, const void* prepared, int64_t rows)`.

    Inputs in task order (states not const), outputs, `prepared` for a kernel with `prepare`, the axes' sizes.
    `comment` puts each tensor on a line of its own with what it says.
    """
    tensors = [(f"{_pointer(spec)} {spec.name}", comment(spec) if comment else "") for spec in _tensors(task)]
    if has_prepared:
        tensors.append(("const void* prepared", "what your prepare function wrote"))
    arguments = tensors + [(f"int64_t {axis}", "") for axis in task.axes]
    if comment is None:
        return f'extern "C" void {entry}({", ".join(text for text, _ in arguments)})'
    lines = [
        f"    {text}{',' if index < len(arguments) - 1 else ')'}{f'  // {note}' if note else ''}"
        for index, (text, note) in enumerate(arguments)
    ]
    return "\n".join([f'extern "C" void {entry}(', *lines])


def prepare_signatures(task: KernelTask, prepare: str) -> tuple[str, str]:
    """The function that says how many bytes `prepared` takes, and the one that fills them."""
    parameters = [f"{_pointer(spec)} {spec.name}" for spec in task.inputs_of(InputRole.PARAMETER)]
    return (
        f'extern "C" int64_t {prepare}_bytes()',
        f'extern "C" void {prepare}({", ".join([*parameters, "void* prepared"])})',
    )


def adapter_source(task: KernelTask, entry: str, prepare: str | None) -> str:
    """Includes the candidate's source, so that the compiler holds its functions to the declarations below."""
    tensors = _tensors(task)
    arguments = [f"static_cast<{_pointer(spec)}>(tensors[{index}])" for index, spec in enumerate(tensors)]
    if prepare is not None:
        arguments.append("prepared")
    arguments += [f"sizes[{index}]" for index in range(len(task.axes))]
    lines = [
        "#include <stdint.h>",
        '#include "candidate.cpp"',
        f"{call_signature(task, entry, has_prepared=prepare is not None)};",
        'extern "C" void compiler_agent_call(',
        "    [[maybe_unused]] void* const* tensors, [[maybe_unused]] const void* prepared,",
        "    [[maybe_unused]] const int64_t* sizes) {",
        f"    {entry}({', '.join(arguments)});",
        "}",
        # By which the destructors of static objects know whose they are; start-up files would define it.
        'extern "C" __attribute__((visibility("hidden"))) void* __dso_handle = &__dso_handle;',
    ]
    if prepare is not None:
        parameters = task.inputs_of(InputRole.PARAMETER)
        arguments = [f"static_cast<{_pointer(spec)}>(parameters[{index}])" for index, spec in enumerate(parameters)]
        lines += [
            *(f"{signature};" for signature in prepare_signatures(task, prepare)),
            f'extern "C" int64_t compiler_agent_prepared_bytes() {{ return {prepare}_bytes(); }}',
            'extern "C" void compiler_agent_prepare([[maybe_unused]] void* const* parameters, void* prepared) {',
            f"    {prepare}({', '.join([*arguments, 'prepared'])});",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _tensors(task: KernelTask) -> tuple[TensorSpec, ...]:
    return (*task.inputs, *task.outputs)


def _pointer(spec: TensorSpec) -> str:
    is_read_only = isinstance(spec, InputSpec) and spec.role is not InputRole.STATE
    return f"{'const ' if is_read_only else ''}{_TYPES[spec.element_type]}*"
