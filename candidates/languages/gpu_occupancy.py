"""How many threads of a kernel a multiprocessor can hold at once, by what the compiler reports of it.

A bound: what a launch gets depends on its grid, and on shared memory asked for at the launch. The limits are
NVIDIA's; AMD's are in `gpu_architectures`.

The arithmetic is NVIDIA's own (`cuda_occupancy.h` of the CUDA 13.0 toolkit, functions cudaOccMaxBlocksPerSM*Limit), the
limits are of "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide, appendix 17.2, and of
cudaOccMaxBlocksPerMultiprocessor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from candidates.record import Record

THREADS_A_WARP = 32
MOST_THREADS_A_BLOCK = 1024
"""Also on AMD's (HIP, hipDeviceAttributeMaxThreadsPerBlock)."""
MOST_REGISTERS_A_THREAD = 255
_REGISTERS_A_MULTIPROCESSOR = 64 << 10
_REGISTERS_ALLOCATED_AT_ONCE = 256  # for each warp
_PARTITIONS = 4  # of a multiprocessor, each with a quarter of the registers


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiprocessorLimits:
    """Of one GPU architecture; all have 64 Ki registers of 32 bits."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_a_block: int
    """With cudaFuncAttributeMaxDynamicSharedMemorySize; 48 KiB without."""
    reserved_shared_bytes_a_block: int = 1 << 10
    """Which the driver takes."""
    shared_bytes_allocated_at_once: int = 128


LIMITS = {
    "sm_75": MultiprocessorLimits(
        warps=32,
        blocks=16,
        shared_bytes=64 << 10,
        shared_bytes_a_block=64 << 10,
        reserved_shared_bytes_a_block=0,
        shared_bytes_allocated_at_once=256,
    ),
    "sm_80": MultiprocessorLimits(warps=64, blocks=32, shared_bytes=164 << 10, shared_bytes_a_block=163 << 10),
    "sm_86": MultiprocessorLimits(warps=48, blocks=16, shared_bytes=100 << 10, shared_bytes_a_block=99 << 10),
    "sm_87": MultiprocessorLimits(warps=48, blocks=16, shared_bytes=164 << 10, shared_bytes_a_block=163 << 10),
    "sm_89": MultiprocessorLimits(warps=48, blocks=24, shared_bytes=100 << 10, shared_bytes_a_block=99 << 10),
    "sm_90": MultiprocessorLimits(warps=64, blocks=32, shared_bytes=228 << 10, shared_bytes_a_block=227 << 10),
    "sm_100": MultiprocessorLimits(warps=64, blocks=32, shared_bytes=228 << 10, shared_bytes_a_block=227 << 10),
    "sm_103": MultiprocessorLimits(warps=64, blocks=32, shared_bytes=228 << 10, shared_bytes_a_block=227 << 10),
    "sm_120": MultiprocessorLimits(warps=48, blocks=24, shared_bytes=100 << 10, shared_bytes_a_block=99 << 10),
}


class OccupancyBound(Record):
    threads_a_block: int = Field(ge=1)
    blocks: int = Field(ge=0)
    """That a multiprocessor holds at once; 0: the kernel cannot be launched."""
    share_of_warps: float = Field(ge=0, le=1)
    """Of those that a multiprocessor can hold, 0 to 1."""
    limited_by: tuple[str, ...]
    """`registers`, `shared memory`, `warps`, `blocks`: what no block more would fit into."""

    def __str__(self) -> str:
        return f"{self.share_of_warps:.0%} ({self.blocks} blocks, by {' and '.join(self.limited_by)})"


def bound_occupancy(
    architecture: str, *, registers_a_thread: int, shared_bytes_a_block: int, threads_a_block: int
) -> OccupancyBound | None:
    """None for an architecture that LIMITS does not hold.

    `shared_bytes_a_block` is what the kernel asks for, static and dynamic together. Raises ValueError for a negative
    figure or a block without threads.
    """
    if registers_a_thread < 0 or shared_bytes_a_block < 0 or threads_a_block < 1:
        raise ValueError(
            f"no kernel has {registers_a_thread} registers, {shared_bytes_a_block} bytes of shared memory and "
            f"{threads_a_block} threads a block"
        )
    limits = LIMITS.get(architecture)
    if limits is None:
        return None
    warps_a_block = -(-threads_a_block // THREADS_A_WARP)
    blocks_by = {
        "registers": _blocks_by_registers(registers_a_thread, warps_a_block),
        "shared memory": _blocks_by_shared_memory(limits, shared_bytes_a_block),
        "warps": limits.warps // warps_a_block if threads_a_block <= MOST_THREADS_A_BLOCK else 0,
        "blocks": limits.blocks,
    }
    return bound_by(blocks_by, warps_a_block=warps_a_block, threads_a_block=threads_a_block, most_warps=limits.warps)


def bound_by(
    blocks_by: Mapping[str, int | None], *, warps_a_block: int, threads_a_block: int, most_warps: int
) -> OccupancyBound:
    """`blocks_by`: how many fit, by what limits them; None: any number."""
    known = {name: blocks for name, blocks in blocks_by.items() if blocks is not None}
    blocks = min(known.values())
    return OccupancyBound(
        threads_a_block=threads_a_block,
        blocks=blocks,
        share_of_warps=blocks * warps_a_block / most_warps,
        limited_by=tuple(name for name, most in known.items() if most == blocks),
    )


def _blocks_by_registers(registers_a_thread: int, warps_a_block: int) -> int | None:
    """None: any number of them."""
    if registers_a_thread == 0:
        return None
    at_once = _REGISTERS_ALLOCATED_AT_ONCE
    registers_a_warp = -(-registers_a_thread * THREADS_A_WARP // at_once) * at_once
    # The hardware admits a block as if it had as many warps in each partition.
    admitted_warps = -(-warps_a_block // _PARTITIONS) * _PARTITIONS
    if registers_a_warp * admitted_warps > _REGISTERS_A_MULTIPROCESSOR or registers_a_thread > MOST_REGISTERS_A_THREAD:
        return 0
    warps_a_partition = _REGISTERS_A_MULTIPROCESSOR // _PARTITIONS // registers_a_warp
    return warps_a_partition * _PARTITIONS // warps_a_block


def _blocks_by_shared_memory(limits: MultiprocessorLimits, shared_bytes_a_block: int) -> int | None:
    if shared_bytes_a_block > limits.shared_bytes_a_block:
        return 0
    at_once = limits.shared_bytes_allocated_at_once
    asked = shared_bytes_a_block + limits.reserved_shared_bytes_a_block
    allocated = -(-asked // at_once) * at_once
    return limits.shared_bytes // allocated if allocated else None
