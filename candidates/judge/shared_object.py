"""SharedObject: the dynamic segment of an ELF file, as the loader reads it (System V ABI, chapter 5; glibc elf.h)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

NEEDED, STRINGS, SYMBOLS, RELOCATIONS, RELOCATIONS_BYTES = 1, 5, 6, 7, 8
JUMP_RELOCATIONS_BYTES, JUMP_RELOCATIONS = 2, 23
FLAGS = 30
INIT_ARRAY, INIT_ARRAY_BYTES = 25, 27
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
EXECUTABLE, WRITABLE = 1, 2
_GNU_HASH = 0x6FFFFEF5
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RUNS_CODE = {37, 1032}  # R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE: the loader calls a resolver
_IS_RELATIVE = {8, 1027}  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE: an address within the object
_INDIRECT_FUNCTION = 10  # STT_GNU_IFUNC
_FUNCTION = 2  # STT_FUNC
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_TABLE = 2  # SHT_SYMTAB


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    name: str
    is_import: bool
    is_indirect: bool


class SharedObject:
    """It and its methods raise struct.error, IndexError or ValueError where the file is not well-formed."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError for what is no 64-bit little-endian ELF file."""
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
            if kind == PT_LOAD:
                self._loads.append((address, file_bytes, offset))
            if kind == PT_DYNAMIC:
                entries = struct.iter_unpack("<QQ", content[offset : offset + file_bytes // 16 * 16])
                self._dynamic += [(tag, value) for tag, value in entries if tag]

    def first(self, tag: int) -> int:
        """0 when there is none."""
        return next((value for found, value in self._dynamic if found == tag), 0)

    def needed(self) -> Iterator[str]:
        return (self._string(value) for tag, value in self._dynamic if tag == NEEDED)

    def symbols(self) -> Iterator[Symbol]:
        symbols = self._offset(self.first(SYMBOLS))
        for index in range(1, self._symbol_count()):
            name, kind, _, section, _, _ = _SYMBOL.unpack_from(self._content, symbols + index * _SYMBOL.size)
            yield Symbol(name=self._string(name), is_import=section == 0, is_indirect=kind & 0xF == _INDIRECT_FUNCTION)

    def has_resolver(self) -> bool:
        for start, size in ((RELOCATIONS, RELOCATIONS_BYTES), (JUMP_RELOCATIONS, JUMP_RELOCATIONS_BYTES)):
            if self.first(start):
                offset = self._offset(self.first(start))
                table = self._content[offset : offset + self.first(size) // _RELOCATION.size * _RELOCATION.size]
                if any(info & 0xFFFFFFFF in _RUNS_CODE for _, info, _ in _RELOCATION.iter_unpack(table)):
                    return True
        return False

    def constructors(self) -> list[str]:
        """Names of the functions that the loader calls, in order, as the linker kept them; `` for one without."""
        if not self.first(INIT_ARRAY):
            return []
        functions = self._function_names()
        start, size = self.first(INIT_ARRAY), self.first(INIT_ARRAY_BYTES)
        targets = dict.fromkeys(range(start, start + size, 8), 0)
        offset = self._offset(self.first(RELOCATIONS)) if self.first(RELOCATIONS) else 0
        table = self._content[offset : offset + self.first(RELOCATIONS_BYTES) // _RELOCATION.size * _RELOCATION.size]
        for place, info, addend in _RELOCATION.iter_unpack(table):
            if place in targets and info & 0xFFFFFFFF in _IS_RELATIVE:
                targets[place] = addend
        return [functions.get(target, "") for target in targets.values()]

    def _function_names(self) -> dict[int, str]:
        """Of all functions by address, local ones too, by the linker's own table; the loader reads none of it."""
        (sections_at,) = struct.unpack_from("<Q", self._content, 40)
        size, count = struct.unpack_from("<HH", self._content, 58)
        sections = [_SECTION.unpack_from(self._content, sections_at + index * size) for index in range(count)]
        names: dict[int, str] = {}
        for kind, offset, length, strings in ((each[1], each[4], each[5], each[6]) for each in sections):
            if kind != _SYMBOL_TABLE:
                continue
            strings_at = sections[strings][4]
            table = self._content[offset : offset + length // _SYMBOL.size * _SYMBOL.size]
            for name, symbol_kind, _, _, address, _ in _SYMBOL.iter_unpack(table):
                if symbol_kind & 0xF == _FUNCTION:
                    end = self._content.index(b"\0", strings_at + name)
                    names[address] = self._content[strings_at + name : end].decode(errors="replace")
        return names

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
        start = self._offset(self.first(STRINGS)) + index
        return self._content[start : self._content.index(b"\0", start)].decode(errors="replace")

    def _offset(self, address: int) -> int:
        for start, size, offset in self._loads:
            if start <= address < start + size:
                return offset + address - start
        raise ValueError("the artifact's dynamic segment points nowhere")
