"""What a shared object would bring into a serving process: imports, exports, and the code that loading it runs.

A kernel may use memory, mathematics and OpenMP. This reads what the loader reads (names, segments, what runs at load);
`instructions` reads the code. Both find what an author reached for, not what machine code hides, and so add to the
sandbox instead of replacing it.
"""

import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

ALLOWED_LIBRARIES = re.compile(r"(libc|libm|libmvec|libgomp|libgcc_s|libstdc\+\+|ld-linux[a-z0-9-]*)\.so\.\d+")

_MATHEMATICS = (
    r"sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|sincos|exp|exp2|expm1|log|log2|log10|log1p|pow"
    r"|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|fmod|remainder|fma|fmax|fmin|fdim|floor|ceil|trunc|round|rint|nearbyint"
    r"|lround|llround|lrint|llrint|ldexp|frexp|scalbn|modf|nextafter|copysign|fabs|nan|logb|ilogb"
)
ALLOWED_SYMBOLS = re.compile(
    rf"({_MATHEMATICS})[fl]?|_ZGV\w+"
    r"|mem(cpy|set|move|cmp|chr)|str(len|n?cmp)|malloc|calloc|realloc|free|aligned_alloc|posix_memalign"
    r"|qsort|bsearch|abs|labs|abort|__assert_fail|__stack_chk_fail|__mem(cpy|set|move)_chk"
    r"|GOMP_\w+|omp_get_(?!wti)\w+|omp_in_parallel"
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

_NEEDED, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_BYTES = 1, 5, 6, 7, 8
_JUMP_RELOCATIONS_BYTES, _JUMP_RELOCATIONS = 2, 23
_FLAGS, _HAS_TEXT_RELOCATIONS = 30, 4
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
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_EXECUTABLE, _WRITABLE = 1, 2
_GNU_HASH = 0x6FFFFEF5
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RUNS_CODE = {37, 1032}  # R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE: the loader calls a resolver
_INDIRECT_FUNCTION = 10  # STT_GNU_IFUNC


def find_forbidden(artifact: bytes, exports: Collection[str]) -> list[str]:
    """What forbids shipping the shared object, in words, sorted; empty when nothing does.

    `exports` are all names that it may define for others. Raises ValueError for what is no 64-bit little-endian ELF
    shared object.
    """
    try:
        return sorted(set(_find(_SharedObject(artifact), exports)))
    except (struct.error, IndexError) as error:
        raise ValueError("the artifact is no well-formed shared object") from error


def _find(shared_object: "_SharedObject", exports: Collection[str]) -> Iterator[str]:
    for name in shared_object.needed():
        if not ALLOWED_LIBRARIES.fullmatch(name):
            yield f"needs {name}"
    for symbol in shared_object.symbols():
        if symbol.is_import and not ALLOWED_SYMBOLS.fullmatch(symbol.name):
            yield f"imports {symbol.name}"
        if not symbol.is_import and symbol.name not in exports:
            yield f"exports {symbol.name}"
        if symbol.is_indirect:
            yield "has an indirect function, whose resolver runs at load"
    if shared_object.has_resolver():
        yield "has an indirect function, whose resolver runs at load"
    for tag, meaning in _FORBIDDEN_TAGS.items():
        if shared_object.first(tag):
            yield meaning
    if shared_object.first(_FLAGS) & _HAS_TEXT_RELOCATIONS:
        yield _FORBIDDEN_TAGS[22]
    if any(flags & _EXECUTABLE and flags & _WRITABLE for kind, flags in shared_object.segments if kind == _PT_LOAD):
        yield "has memory that is both writable and executable"
    # Without the mark the loader makes the process's stacks executable.
    if any(flags & _EXECUTABLE for kind, flags in shared_object.segments if kind == _PT_GNU_STACK) or not any(
        kind == _PT_GNU_STACK for kind, _ in shared_object.segments
    ):
        yield "needs an executable stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Symbol:
    name: str
    is_import: bool
    is_indirect: bool


class _SharedObject:
    """The dynamic segment of an ELF file, as the loader reads it (System V ABI, chapter 5)."""

    def __init__(self, content: bytes) -> None:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError("the artifact is no 64-bit little-endian ELF file")
        self._content = content
        (headers_at,) = struct.unpack_from("<Q", content, 32)
        size, count = struct.unpack_from("<HH", content, 54)
        self._loads: list[tuple[int, int, int]] = []
        self._dynamic: list[tuple[int, int]] = []
        self.segments: list[tuple[int, int]] = []
        """Kind and flags of each."""
        for index in range(count):
            kind, flags, offset, address, _, file_bytes = struct.unpack_from(
                "<IIQQQQ", content, headers_at + index * size
            )
            self.segments.append((kind, flags))
            if kind == _PT_LOAD:
                self._loads.append((address, file_bytes, offset))
            if kind == _PT_DYNAMIC:
                entries = struct.iter_unpack("<QQ", content[offset : offset + file_bytes // 16 * 16])
                self._dynamic += [(tag, value) for tag, value in entries if tag]

    def first(self, tag: int) -> int:
        """0 when there is none."""
        return next((value for found, value in self._dynamic if found == tag), 0)

    def needed(self) -> Iterator[str]:
        return (self._string(value) for tag, value in self._dynamic if tag == _NEEDED)

    def symbols(self) -> Iterator[_Symbol]:
        symbols = self._offset(self.first(_SYMBOLS))
        for index in range(1, self._symbol_count()):
            name, kind, _, section, _, _ = _SYMBOL.unpack_from(self._content, symbols + index * _SYMBOL.size)
            yield _Symbol(name=self._string(name), is_import=section == 0, is_indirect=kind & 0xF == _INDIRECT_FUNCTION)

    def has_resolver(self) -> bool:
        for start, size in ((_RELOCATIONS, _RELOCATIONS_BYTES), (_JUMP_RELOCATIONS, _JUMP_RELOCATIONS_BYTES)):
            if self.first(start):
                offset = self._offset(self.first(start))
                table = self._content[offset : offset + self.first(size) // _RELOCATION.size * _RELOCATION.size]
                if any(info & 0xFFFFFFFF in _RUNS_CODE for _, info, _ in _RELOCATION.iter_unpack(table)):
                    return True
        return False

    def _symbol_count(self) -> int:
        """The hash table covers the defined symbols, which stand last; its chains end with an odd hash."""
        at = self._offset(self.first(_GNU_HASH))
        buckets, first_hashed, bloom_words, _ = struct.unpack_from("<IIII", self._content, at)
        at += 16 + 8 * bloom_words
        last = max(struct.unpack_from(f"<{buckets}I", self._content, at), default=0)
        if last < first_hashed:
            return int(first_hashed)
        at += 4 * buckets
        while not struct.unpack_from("<I", self._content, at + 4 * (last - first_hashed))[0] & 1:
            last += 1
        return int(last) + 1

    def _string(self, index: int) -> str:
        start = self._offset(self.first(_STRINGS)) + index
        return self._content[start : self._content.index(b"\0", start)].decode(errors="replace")

    def _offset(self, address: int) -> int:
        for start, size, offset in self._loads:
            if start <= address < start + size:
                return offset + address - start
        raise ValueError("the artifact's dynamic segment points nowhere")
