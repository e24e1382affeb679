"""What a Triton candidate's Python may name, by where it stands; `triton_source` enforces it.

Everything is an allow-list: what PyTorch, Triton or Python add later is refused until it stands here.
"""

import math
from enum import StrEnum


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Place(StrEnum):
    MODULE = "at module level"
    KERNEL = "in host code of the kernel"
    PREPARE = "in prepare"
    DEVICE = "in a @triton.jit function"


MODULES = frozenset({"torch", "triton", "triton.language", "math"})

_DTYPES = _names(
    "float16 half float32 float float64 double bfloat16 int8 int16 short int32 int int64 long uint8 uint16 uint32 "
    "uint64 bool float8_e4m3fn float8_e5m2"
)
_ALLOCATIONS = _names("empty empty_like empty_strided zeros zeros_like full full_like ones ones_like")
_PREPARING = _names(
    "abs add amax amin any all arange argsort argmax argmin bitwise_and bitwise_left_shift bitwise_not bitwise_or "
    "bitwise_right_shift bitwise_xor bucketize bmm cat ceil chunk clamp clone concat cos cumsum diag diagonal div "
    "einsum exp exp2 eye flatten flip floor floor_divide frexp gather index_select isfinite isnan ldexp linspace log "
    "log2 logical_and logical_not logical_or masked_fill matmul max maximum mean min minimum mm movedim mul narrow neg "
    "nonzero outer permute pow prod reciprocal remainder repeat_interleave reshape roll round rsqrt scatter select "
    "sigmoid sign sin sort split sqrt square squeeze stack std sub sum swapaxes tanh tensor tile topk transpose tril "
    "triu trunc unbind unsqueeze vstack hstack where"
)

_TL_DTYPES = _names(
    "bfloat16 float16 float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 int1 int8 int16 int32 "
    "int64 uint8 uint16 uint32 uint64"
)
_TL_MATH = _names("abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi")
_TL = _names(
    "PropagateNan.ALL PropagateNan.NONE advance arange argmax argmin associative_scan assume atomic_add atomic_and "
    "atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor broadcast broadcast_to cast cat cdiv clamp "
    "constexpr cumprod cumsum debug_barrier device_assert dot dot_scaled expand_dims flip full gather histogram "
    "interleave join load make_block_ptr max max_constancy max_contiguous maximum min minimum multiple_of num_programs "
    "permute philox pointer_type program_id rand rand4x randint randint4x randn randn4x range ravel reduce reduce_or "
    "reshape sigmoid softmax sort split squeeze static_assert static_range store sum swizzle2d tensor topk trans "
    "unsqueeze view where xor_sum zeros zeros_like"
)
_MATH = [f"math.{name}" for name in dir(math) if not name.startswith("_")]

_HOST = frozenset(
    [
        *(f"torch.{name}" for name in (*_DTYPES, *_ALLOCATIONS, "Tensor", "dtype", "Size", "finfo", "iinfo")),
        *(f"triton.language.{name}" for name in (*_TL_DTYPES, "constexpr", "dtype")),
        *("triton.cdiv", "triton.next_power_of_2"),
        *_MATH,
    ]
)
VALUES = {
    Place.MODULE: _HOST - {f"torch.{name}" for name in _ALLOCATIONS},
    Place.KERNEL: _HOST,
    Place.PREPARE: _HOST | {f"torch.{name}" for name in _PREPARING} | {"torch.nn.functional.pad"},
    Place.DEVICE: frozenset(
        [
            *(f"triton.language.{name}" for name in (*_TL_DTYPES, *_TL_MATH, *_TL, "dtype")),
            *(f"triton.language.math.{name}" for name in _TL_MATH),
            *("triton.cdiv", "triton.next_power_of_2"),
        ]
    ),
}
"""Dotted paths from an allowed module."""

NEED_DEVICE = frozenset(
    f"torch.{name}"
    for name in ("empty", "empty_strided", "zeros", "full", "ones", "arange", "tensor", "eye", "linspace")
)
"""They put a tensor on the CPU where they are not told."""

_HOST_BUILTINS = _names(
    "abs all any bool dict divmod enumerate float int isinstance len list max min pow range reversed round  sorted "
    "sum tuple zip"
)
EXCEPTIONS = frozenset({"ValueError", "RuntimeError", "TypeError", "NotImplementedError", "AssertionError"})
BUILTINS = {
    Place.MODULE: frozenset({"abs", "bool", "float", "int", "len", "max", "min", "pow", "round", "sum", "tuple"}),
    Place.KERNEL: _HOST_BUILTINS,
    Place.PREPARE: _HOST_BUILTINS,
    Place.DEVICE: frozenset({"abs", "float", "int", "len", "max", "min", "range", "tuple"}),
}
ANNOTATIONS = frozenset({"int", "float", "bool", "str", "tuple", "list", "None"})

_METADATA = _names("shape dtype device ndim T mT itemsize")
_VIEWS = _names(
    "as_strided chunk detach diagonal expand expand_as flatten movedim narrow permute ravel reshape select split "
    "squeeze swapaxes t transpose unbind unflatten unfold unsqueeze view view_as contiguous"
)
_ASKED = _names("size stride numel dim element_size is_contiguous is_floating_point")
_FILLS = _names("zero_ fill_ new_empty new_zeros new_full new_ones new_empty_strided")
_CONTAINERS = _names("append items keys values get")
_DEVICE_METHODS = _names(
    "abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or "
    "atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos cumprod cumsum erf exp exp2 expand_dims flip floor gather "
    "histogram is_bf16 is_floating is_fp16 is_fp32 is_fp64 is_fp8 is_int is_int_signed is_int_unsigned is_ptr log log2 "
    "logical_and logical_or max min permute ravel reduce reduce_or reshape rsqrt sigmoid sin softmax sort split sqrt "
    "sqrt_rn store sum to trans view xor_sum"
)
_PREPARE_METHODS = _names(
    "to float half bfloat16 int long short double bool char byte type_as clone copy_ item tolist repeat add_ sub_ mul_ "
    "div_ clamp_ round_ masked_fill_ index_copy_ scatter_ extend index count isclose"
)
_HOST_ATTRIBUTES = frozenset([*_METADATA, *_VIEWS, *_ASKED, *_FILLS, *_CONTAINERS])
ATTRIBUTES = {
    Place.MODULE: frozenset[str](),
    Place.KERNEL: _HOST_ATTRIBUTES,
    Place.PREPARE: _HOST_ATTRIBUTES | _PREPARING | _PREPARE_METHODS,
    Place.DEVICE: frozenset(["shape", "dtype", "T", "element_ty", "primitive_bitwidth", "scalar", *_DEVICE_METHODS]),
}
"""Of values that are no modules, whatever they are; also the methods."""
LIMITS_OF_A_DTYPE = frozenset({"min", "max", "eps", "tiny", "smallest_normal", "bits"})
"""Attributes of torch.finfo(...) and torch.iinfo(...)."""

HOST_KEYWORDS = _names(
    "dtype device dim dims size stride fill_value start end step length keepdim min max sections storage_offset "
    "offset strict key reverse default other dim0 dim1 descending largest sorted k indexing rounding_mode "
    "memory_format diagonal repeats shifts mode value pad correction right output_size"
)
"""Of calls of PyTorch, methods and builtins."""

LAUNCH_OPTIONS = _names(
    "num_warps num_stages num_ctas maxnreg enable_fp_fusion waves_per_eu matrix_instr_nonkdim kpack"
)
RESERVED_PARAMETERS = _names(
    "allow_flush_denorm allowed_dot_input_precisions arch backend_name clc cluster_dims debug "
    "default_dot_input_precision deprecated_fp8_dot_operand_dtypes device device_type enable_fp_fusion enable_iisan "
    "enable_reflect_ftz extern_libs fpsan_homomorphic_casts grid instrumentation_mode ir_override kpack "
    "launch_cooperative_grid launch_cooperative_cluster launch_pdl matrix_instr_nonkdim max_num_imprecise_acc_default "
    "maxnreg min_shared_mem num_ctas num_stages num_warps ptx_options ptx_version sanitize_overflow sched4reg "
    "schedule_hint stream supported_fp8_dtypes supports_fp8 warmup warp_size waves_per_eu llvm_fn_attrs wgp_cu_mode"
)
"""Triton takes a keyword argument of such a name for an option of its compiler, even if it is a kernel's parameter."""

INTERPRETERS_OWN = frozenset({"interpreter_semantic", "interpreter_builder"})
"""Names that Triton's interpreter writes into a kernel's code; so it does with those that start with _Interpreter."""
