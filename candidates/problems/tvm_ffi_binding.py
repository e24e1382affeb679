"""C++ that offers a kernel of ours to FlashInfer-Bench: a function of TVM FFI tensors that calls our plain C function.

It checks what the kernel takes for granted (dense tensors, constant sizes, the scalars that are built in).
"""

from collections.abc import Sequence

from candidates.candidate import Candidate
from candidates.languages.cpp_abi import pointer_type
from candidates.problems.problem import FixedScalar
from candidates.task import InputSpec, KernelTask, TensorSpec

KERNEL_FILE, BINDING_FILE, SYMBOL = "kernel.h", "binding.cpp", "run"


def kernel_header(candidate: Candidate) -> str:
    """The source with its launch parameters as macros: that layout has no compiler flags."""
    macros = [f"#define LAUNCH_{name} {value}\n" for name, value in sorted(candidate.launch_parameters.items())]
    return "".join(macros) + candidate.source


def binding_source(task: KernelTask, candidate: Candidate, arguments: Sequence[InputSpec | FixedScalar]) -> str:
    """`arguments` in the order of the definition's inputs; the outputs follow them."""
    parameters: list[str] = []
    checks: list[str] = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, InputSpec):
            parameters.append(f"tvm::ffi::TensorView {argument.name}")
        else:
            parameters.append(f"{_scalar_type(argument)} scalar{index}")
            checks.append(f"TVM_FFI_ICHECK_EQ(scalar{index}, {_literal(argument)});")
    parameters += [f"tvm::ffi::TensorView {output.name}" for output in task.outputs]
    tensors = (*task.inputs, *task.outputs)
    checks += [check for tensor in tensors for check in _shape_checks(tensor)]
    passed = [f"static_cast<{pointer_type(tensor)}>({tensor.name}.data_ptr())" for tensor in tensors]
    passed += [_size_of(axis, tensors) for axis in task.axes]
    return "\n".join(
        [
            "#include <tvm/ffi/container/tensor.h>",
            "#include <tvm/ffi/function.h>",
            "",
            f'#include "{KERNEL_FILE}"',
            "",
            f"static void compiler_agent_run({', '.join(parameters)}) {{",
            *(f"  {check}" for check in checks),
            f"  {candidate.entry}({', '.join(passed)});",
            "}",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({SYMBOL}, compiler_agent_run);",
            "",
        ]
    )


def _shape_checks(tensor: TensorSpec) -> list[str]:
    constant = [(index, size) for index, size in enumerate(tensor.shape) if isinstance(size, int)]
    return [
        f"TVM_FFI_ICHECK({tensor.name}.IsContiguous());",
        f"TVM_FFI_ICHECK_EQ({tensor.name}.ndim(), {len(tensor.shape)});",
        *(f"TVM_FFI_ICHECK_EQ({tensor.name}.size({index}), {size});" for index, size in constant),
    ]


def _size_of(axis: str, tensors: Sequence[TensorSpec]) -> str:
    return next(f"{tensor.name}.size({tensor.shape.index(axis)})" for tensor in tensors if axis in tensor.shape)


def _scalar_type(scalar: FixedScalar) -> str:
    return {bool: "bool", int: "int64_t", float: "double"}[type(scalar.value)]


def _literal(scalar: FixedScalar) -> str:
    return str(scalar.value).lower() if isinstance(scalar.value, bool) else repr(scalar.value)
