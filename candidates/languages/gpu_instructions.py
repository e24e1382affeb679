"""Kinds of GPU instructions that an author can act on, of their names in PTX and in AMD's assembly."""

import math
import re
from collections import Counter
from collections.abc import Mapping

_KINDS = {
    "matrix multiply": r"mma\.sync|wgmma\.mma_async|tcgen05\.mma|v_s?mfmac?_",
    "async copy to shared": r"cp\.async\.(?!commit|wait)",
    "shared load": r"ld\.shared|ldmatrix|ds_(?:read|load)",
    "shared store": r"st\.shared|stmatrix|ds_(?:write|store)",
    "local memory": r"(?:ld|st)\.local|scratch_(?:load|store)",
    "atomic": r"(?:atom|red)\.(?!async)|(?:global|buffer|flat|ds)_(?:atomic|add|max|min|cmpst)",
    "barrier": r"(?:bar|barrier)\.|s_barrier",
    "shuffle": r"shfl\.|ds_bpermute|ds_swizzle|v_permlane",
    "fused multiply-add": r"fma\.|v_(?:pk_)?fma",
    "special function": r"(?:ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt|div)\.(?:approx|rn|full)"
    r"|v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}


def count_kinds(instructions: Mapping[str, int]) -> dict[str, int]:
    """Most first; what belongs to no kind is left out. Accesses of global memory are told apart by the bits that a
    thread moves at once."""
    counts: Counter[str] = Counter()
    for name, count in instructions.items():
        kind = _global_access(name) or next((kind for kind, each in _PATTERNS.items() if each.match(name)), None)
        if kind is not None:
            counts[kind] += count
    return dict(counts.most_common())


def _global_access(name: str) -> str | None:
    """`128-bit global load` for `ld.global.v4.b32` and for `buffer_load_dwordx4`."""
    if found := re.match(r"(ld|st)\.(?:\w+\.)*global\b", name):
        # PTX ISA, 9.7.9 "Data Movement and Conversion Instructions": elements, and bits of each.
        bits = math.prod(int(each) for each in re.findall(r"\.[vbusf](\d+)(?=\.|$)", name))
        return f"{bits}-bit global {'load' if found[1] == 'ld' else 'store'}"
    if found := re.match(
        r"(?:global|buffer|flat)_(load|store)_(?:(?:dword|b32)x?(\d?)|s?(byte|ubyte|short|ushort|b64|b96|b128))", name
    ):
        narrow = {"byte": 8, "ubyte": 8, "short": 16, "ushort": 16, "b64": 64, "b96": 96, "b128": 128}
        bits = narrow[found[3]] if found[3] else 32 * int(found[2] or 1)
        return f"{bits}-bit global {found[1]}"
    return None
