"""What a shared object would bring into a serving process: the symbols it imports and the code that loading it runs.

A kernel may use memory, mathematics and OpenMP. This reads names only: it finds what an author reached for, not what
machine code hides, and so adds to the sandbox instead of replacing it.
"""

import re
import struct
from collections.abc import Iterator

ALLOWED_LIBRARIES = re.compile(r"(libc|libm|libmvec|libgomp|libgcc_s|libstdc\+\+|ld-linux[a-z0-9-]*)\.so\.\d+")

_MATHEMATICS = (
    r"sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|sincos|exp|exp2|expm1|log|log2|log10|log1p|pow"
    r"|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|fmod|remainder|fma|fmax|fmin|fdim|floor|ceil|trunc|round|rint|nearbyint"
    r"|lround|llround|lrint|llrint|ldexp|frexp|scalbn|modf|nextafter|copysign|fabs|nan|logb|ilogb"
)
ALLOWED_SYMBOLS = re.compile(
    rf"({_MATHEMATICS})[fl]?|_ZGV\w+"
    r"|mem(cpy|set|move|cmp|chr)|strlen|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|qsort|bsearch|abs|labs"
    r"|abort|__assert_fail|__stack_chk_fail|__mem(cpy|set|move)_chk"
    r"|GOMP_\w+|omp_get_\w+|omp_in_parallel"
    # C++: new and delete, exceptions, guards of function statics
    r"|_Zn[wa]\w+|_Zd[la]\w+|_ZSt\d+__throw_\w+|_ZSt9terminatev|_ZTV\w+|_ZTI\w+|_ZNSt\w+(exception|error|alloc)\w*"
    r"|__cxa_\w+|__gxx_personality_v0|_Unwind_\w+|__tls_get_addr"
)

_NEEDED, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_BYTES = 1, 5, 6, 7, 8
_JUMP_RELOCATIONS_BYTES, _JUMP_RELOCATIONS = 2, 23
_RUN_BY_THE_LOADER = (12, 13, 25, 26, 32)
"""DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_PREINIT_ARRAY. Kernels are linked without the compiler's start-up
files, so that none of them is there, nor any hook that those files would call: `__gmon_start__`, say."""
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_EXECUTABLE, _WRITABLE = 1, 2
_INDIRECT_FUNCTION = 10
_GNU_HASH = 0x6FFFFEF5
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RUNS_CODE = {37, 1032}  # R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE: the loader calls a resolver


def find_forbidden(artifact: bytes) -> list[str]:
    """What forbids shipping the shared object, in words, sorted; empty when nothing does.

    Raises ValueError for what is no 64-bit little-endian ELF shared object.
    """
    try:
        return sorted(set(_find(_SharedObject(artifact))))
    except (struct.error, IndexError) as error:
        raise ValueError("the artifact is no well-formed shared object") from error


def _find(shared_object: "_SharedObject") -> Iterator[str]:
    for name in shared_object.needed():
        if not ALLOWED_LIBRARIES.fullmatch(name):
            yield f"needs {name}"
    for name in shared_object.imports():
        if not ALLOWED_SYMBOLS.fullmatch(name):
            yield f"imports {name}"
    if any(map(shared_object.first, _RUN_BY_THE_LOADER)):
        yield "has a constructor or destructor: no static object may need code to be initialised"
    if shared_object.has_resolver():
        yield "has an indirect function, whose resolver runs at load"
    if shared_object.has_writable_code:
        yield "has memory that is both writable and executable"


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
        self.has_writable_code = False
        for index in range(count):
            header = struct.unpack_from("<IIQQQQ", content, headers_at + index * size)
            kind, flags, offset, address, _, file_bytes = header
            if kind in (_PT_LOAD, _PT_GNU_STACK) and flags & _EXECUTABLE and flags & _WRITABLE:
                self.has_writable_code = True
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

    def imports(self) -> Iterator[str]:
        return (self._string(name) for name, _, section in self._symbols() if section == 0)

    def has_resolver(self) -> bool:
        # An exported one is bound by its name: its relocation is that of any function.
        if any(kind & 0xF == _INDIRECT_FUNCTION for _, kind, _ in self._symbols()):
            return True
        for start, size in ((_RELOCATIONS, _RELOCATIONS_BYTES), (_JUMP_RELOCATIONS, _JUMP_RELOCATIONS_BYTES)):
            if self.first(start):
                offset = self._offset(self.first(start))
                table = self._content[offset : offset + self.first(size) // _RELOCATION.size * _RELOCATION.size]
                if any(info & 0xFFFFFFFF in _RUNS_CODE for _, info, _ in _RELOCATION.iter_unpack(table)):
                    return True
        return False

    def _symbols(self) -> Iterator[tuple[int, int, int]]:
        """Where the name stands, type and binding, section."""
        symbols = self._offset(self.first(_SYMBOLS))
        for index in range(1, self._symbol_count()):
            name, kind, _, section, _, _ = _SYMBOL.unpack_from(self._content, symbols + index * _SYMBOL.size)
            yield name, kind, section

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
