"""The GPU architectures that kernels are compiled for: Triton's target for each, and what a block may take there."""

from dataclasses import dataclass

from candidates.languages.gpu_occupancy import (
    LIMITS,
    MOST_THREADS_A_BLOCK,
    OccupancyBound,
    bound_by,
    bound_occupancy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeUnit:
    """What AMD's equivalent of a multiprocessor holds: LLVM, AMDGPUBaseInfo.cpp, getTotalNumVGPRs,
    getVGPRAllocGranule, getMaxWavesPerEU and getLocalMemorySize."""

    simds: int = 4
    waves_a_simd: int = 8
    vector_registers_a_simd: int = 512
    registers_allocated_at_once: int = 8
    shared_bytes: int = 64 << 10


_COMPUTE_UNITS = {
    "gfx90a": ComputeUnit(),
    "gfx942": ComputeUnit(),
    "gfx950": ComputeUnit(shared_bytes=160 << 10),
}

NAMES = (*LIMITS, *_COMPUTE_UNITS)
"""Of all whose limits are known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    name: str
    threads_a_warp: int
    shared_bytes_a_block: int

    def as_target(self) -> dict[str, object]:
        """As the compiler inside the sandbox reads it."""
        is_nvidia = self.name.startswith("sm_")
        return {
            "name": self.name,
            "backend": "cuda" if is_nvidia else "hip",
            "arch": int(self.name.removeprefix("sm_")) if is_nvidia else self.name,
            "threads_a_warp": self.threads_a_warp,
            "most_shared_bytes": self.shared_bytes_a_block,
            "most_threads": MOST_THREADS_A_BLOCK,
        }

    def bound_occupancy(self, *, registers: int, shared_bytes: int, warps: int) -> OccupancyBound | None:
        """Of a kernel with so many registers a thread, shared bytes and warps a block. Raises ValueError for figures
        that no kernel has."""
        if self.name.startswith("sm_"):
            return bound_occupancy(
                self.name,
                registers_a_thread=registers,
                shared_bytes_a_block=shared_bytes,
                threads_a_block=warps * self.threads_a_warp,
            )
        if registers < 0 or shared_bytes < 0 or warps < 1:
            raise ValueError(f"no kernel has {registers} registers, {shared_bytes} shared bytes and {warps} warps")
        return _bound_amd(_COMPUTE_UNITS[self.name], registers, shared_bytes, warps, warps * self.threads_a_warp)


def find_architecture(name: str) -> Architecture | None:
    """None for one whose limits are not known here."""
    if name in _COMPUTE_UNITS:
        return Architecture(name=name, threads_a_warp=64, shared_bytes_a_block=_COMPUTE_UNITS[name].shared_bytes)
    if name in LIMITS:
        return Architecture(name=name, threads_a_warp=32, shared_bytes_a_block=LIMITS[name].shared_bytes_a_block)
    return None


def _bound_amd(unit: ComputeUnit, registers: int, shared_bytes: int, warps: int, threads: int) -> OccupancyBound:
    at_once = unit.registers_allocated_at_once
    allocated = max(-(-registers // at_once) * at_once, at_once)
    most_warps = unit.waves_a_simd * unit.simds
    blocks_by = {
        # The waves of blocks are spread over the SIMDs.
        "registers": unit.vector_registers_a_simd // allocated * unit.simds // warps,
        "shared memory": unit.shared_bytes // shared_bytes if shared_bytes else None,
        "warps": most_warps // warps,
    }
    return bound_by(blocks_by, warps_a_block=warps, threads_a_block=threads, most_warps=most_warps)
