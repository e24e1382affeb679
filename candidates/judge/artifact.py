"""What a shared object would bring into a serving process: imports, exports, and the code that loading it runs.

A C++ kernel may use memory, mathematics and OpenMP, a CUDA kernel's host code launches kernels. This reads what the
loader reads (names, segments, what runs at load); `instructions` reads the code. Both find what an author reached for,
not what machine code hides, and so add to the sandbox instead of replacing it.
"""

import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from candidates.candidate import LanguageName
from candidates.judge.shared_object import (
    EXECUTABLE,
    FLAGS,
    INIT_ARRAY_BYTES,
    PT_GNU_STACK,
    PT_LOAD,
    WRITABLE,
    SharedObject,
)

_LIBRARIES = r"libc|libm|libmvec|libgcc_s|libstdc\+\+|ld-linux[a-z0-9-]*"
_MATHEMATICS = (
    r"sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|sincos|exp|exp2|expm1|log|log2|log10|log1p|pow"
    r"|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|fmod|remainder|fma|fmax|fmin|fdim|floor|ceil|trunc|round|rint|nearbyint"
    r"|lround|llround|lrint|llrint|ldexp|frexp|scalbn|modf|nextafter|copysign|fabs|nan|logb|ilogb"
)
_LANGUAGE = (
    rf"({_MATHEMATICS})[fl]?|_ZGV\w+"
    r"|mem(cpy|set|move|cmp|chr)|str(len|n?cmp)|malloc|calloc|realloc|free|aligned_alloc|posix_memalign"
    r"|qsort|bsearch|abs|labs|abort|__assert_fail|__stack_chk_fail|__mem(cpy|set|move)_chk"
    # C++: new and delete, exceptions, guards of function statics
    r"|_Zn[wa]\w+|_Zd[la]\w+|_ZSt\d+__throw_\w+|_ZSt9terminatev|_ZTV\w+|_ZTI\w+|_ZNSt\w+(exception|error|alloc)\w*"
    r"|__cxa_\w+|__gxx_personality_v0|_Unwind_\w+|__tls_get_addr"
    # containers and shared pointers
    r"|_ZSt7nothrow|_ZSt\d+_Rb_tree_\w+|_ZNKSt8__detail20_Prime_rehash_policy\w+|__libc_single_threaded"
    # arithmetic that the processor lacks (libgcc): wide integers, half, quadruple and complex floats
    r"|__(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord)[hsdxtb][fc][23]|__powi[sdxt]f2"
    r"|__(trunc|extend)[hsdxtb]f[hsdxtb]f2?|__fix(uns)?[hsdxtb]f[sdt]i|__float(un)?[sdt]i[hsdxtb]f"
    r"|__(u?div|u?mod|u?divmod|mul|ashl|ashr|lshr|neg)[sdt]i[234]|__(clz|ctz|popcount|parity|ffs|bswap)[sdt]i2"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippingRules:
    """What one language's shared objects may be made of."""

    libraries: re.Pattern[str]
    symbols: re.Pattern[str]
    """That it may import."""
    constructors: frozenset[str] = frozenset()
    """Functions, by the linker's name, of which one may run at load."""


CPP_RULES = ShippingRules(
    libraries=re.compile(rf"({_LIBRARIES}|libgomp)\.so\.\d+"),
    symbols=re.compile(rf"{_LANGUAGE}|GOMP_\w+|omp_get_(?!wti)\w+|omp_in_parallel"),
)
CUDA_RULES = ShippingRules(
    libraries=re.compile(rf"({_LIBRARIES}|libcudart)\.so\.\d+"),
    symbols=re.compile(
        rf"{_LANGUAGE}"
        # What nvcc writes: registration of the device code, and launches. Not those with attributes (LaunchKernelExC):
        # programmatic ones let a call begin before the one before it has ended.
        r"|__cuda(Register(FatBinary|FatBinaryEnd|Function|Var)|UnregisterFatBinary|InitModule|GetKernel|LaunchKernel"
        r"|(Push|Pop)CallConfiguration)"
        r"|cuda(LaunchKernel|LaunchCooperativeKernel|FuncSetAttribute|FuncGetAttributes|FuncSetCacheConfig"
        r"|OccupancyMaxActiveBlocksPerMultiprocessor(WithFlags)?|OccupancyMaxActiveClusters"
        r"|OccupancyMaxPotentialClusterSize|OccupancyAvailableDynamicSMemPerBlock"
        r"|GetLastError|PeekAtLastError|GetErrorString|GetErrorName|GetDevice|DeviceGetAttribute|GetSymbolAddress"
        r"|MemsetAsync)"
    ),
    # It hands the embedded device code to the CUDA runtime, and every object of nvcc has it (CUDA 13: in C++, mangled).
    constructors=frozenset({"_ZL24__sti____cudaRegisterAllv", "__sti____cudaRegisterAll"}),
)
"""The host code launches kernels and asks what they need. It does not allocate, copy, synchronise, make streams, events
or graphs, take functions of the driver, or call a library."""

_HAS_TEXT_RELOCATIONS = 4
_FORBIDDEN_TAGS = {
    12: "has code that runs when it is loaded (_init)",
    13: "has code that runs when the process ends (_fini)",
    # libgcc's own, which __builtin_cpu_supports brings, looks like any other.
    27: "has a constructor: no static object may need code to be initialised, and no kernel __builtin_cpu_supports "
    "(it is compiled for the machine that runs it)",
    28: "has a destructor function",
    33: "has a constructor",
    15: "brings a search path for libraries",
    29: "brings a search path for libraries",
    22: "has its code changed when it is loaded",
    0x6FFFFEFB: "audits the loader",
    0x6FFFFEFC: "audits the loader",
    0x7FFFFFFD: "stands in for another library",
    0x7FFFFFFF: "stands in for another library",
}
"""Tags of the dynamic segment (System V ABI, glibc elf.h) that say so by being there and not 0."""
SHIPPING_RULES = {LanguageName.CPP: CPP_RULES, LanguageName.CUDA: CUDA_RULES}


def find_forbidden(artifact: bytes, exports: Collection[str], rules: ShippingRules = CPP_RULES) -> list[str]:
    """What forbids shipping the shared object, in words, sorted; empty when nothing does.

    `exports` are all names that it may define for others. Raises ValueError for what is no 64-bit little-endian ELF
    shared object.
    """
    try:
        return sorted(set(_find(SharedObject(artifact), exports, rules)))
    except (struct.error, IndexError) as error:
        raise ValueError("the artifact is no well-formed shared object") from error


def _find(shared_object: SharedObject, exports: Collection[str], rules: ShippingRules) -> Iterator[str]:
    for name in shared_object.needed():
        if not rules.libraries.fullmatch(name):
            yield f"needs {name}"
    for symbol in shared_object.symbols():
        if symbol.is_import and not rules.symbols.fullmatch(symbol.name):
            yield f"imports {symbol.name}"
        if not symbol.is_import and symbol.name not in exports:
            yield f"exports {symbol.name}"
        if symbol.is_indirect:
            yield "has an indirect function, whose resolver runs at load"
    if shared_object.has_resolver():
        yield "has an indirect function, whose resolver runs at load"
    constructors = shared_object.constructors() if rules.constructors else []
    may_construct = len(constructors) == 1 and constructors[0] in rules.constructors
    for tag, meaning in _FORBIDDEN_TAGS.items():
        if shared_object.first(tag) and not (tag == INIT_ARRAY_BYTES and may_construct):
            yield meaning
    if shared_object.first(FLAGS) & _HAS_TEXT_RELOCATIONS:
        yield _FORBIDDEN_TAGS[22]
    if any(flags & EXECUTABLE and flags & WRITABLE for kind, flags in shared_object.segments if kind == PT_LOAD):
        yield "has memory that is both writable and executable"
    # Without the mark the loader makes the process's stacks executable.
    if any(flags & EXECUTABLE for kind, flags in shared_object.segments if kind == PT_GNU_STACK) or not any(
        kind == PT_GNU_STACK for kind, _ in shared_object.segments
    ):
        yield "needs an executable stack"
