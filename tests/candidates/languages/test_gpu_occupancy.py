"""The occupancy bound: known kernels, and NVIDIA's own calculator where its header is installed."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.languages.gpu_occupancy import LIMITS, bound_occupancy

_HEADERS = (Path("/usr/local/cuda/include"), Path("/usr/local/cuda-13.0/include"))
_REGISTERS, _SHARED_BYTES = (0, 1, 24, 32, 40, 63, 128, 255), (0, 1, 1000, 24 << 10, 48 << 10, 90 << 10, 163 << 10)
_THREADS = (1, 32, 96, 256, 300, 640, 1024, 1025)


def test_a_small_kernel_fills_a_multiprocessor() -> None:
    bound = bound_occupancy("sm_90", registers_a_thread=32, shared_bytes_a_block=0, threads_a_block=256)
    assert bound is not None
    assert (bound.blocks, bound.share_of_warps) == (8, 1.0)
    assert bound.limited_by == ("registers", "warps")


def test_shared_memory_counts_what_the_driver_takes() -> None:
    bound = bound_occupancy("sm_90", registers_a_thread=32, shared_bytes_a_block=114 << 10, threads_a_block=128)
    assert bound is not None
    assert (bound.blocks, bound.limited_by) == (1, ("shared memory",))
    assert str(bound) == "6% (1 blocks, by shared memory)"


def test_what_no_multiprocessor_holds_has_no_blocks() -> None:
    bound = bound_occupancy("sm_86", registers_a_thread=32, shared_bytes_a_block=100 << 10, threads_a_block=128)
    assert bound is not None
    assert bound.blocks == 0


def test_an_architecture_outside_the_table_has_no_bound() -> None:
    assert bound_occupancy("gfx942", registers_a_thread=32, shared_bytes_a_block=0, threads_a_block=64) is None
    assert bound_occupancy("sm_91", registers_a_thread=32, shared_bytes_a_block=0, threads_a_block=64) is None
    assert bound_occupancy("sm_90", registers_a_thread=32, shared_bytes_a_block=0, threads_a_block=64) is not None


def test_refuses_a_block_without_threads() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        bound_occupancy("sm_90", registers_a_thread=32, shared_bytes_a_block=0, threads_a_block=0)


@given(
    st.sampled_from(sorted(LIMITS)),
    st.integers(1, 255),
    st.integers(0, 256 << 10),
    st.integers(1, 1024),
)
def test_more_of_anything_never_holds_more_blocks(
    architecture: str, registers: int, shared_bytes: int, threads: int
) -> None:
    def blocks(registers: int, shared_bytes: int, threads: int) -> int:
        bound = bound_occupancy(
            architecture,
            registers_a_thread=registers,
            shared_bytes_a_block=shared_bytes,
            threads_a_block=threads,
        )
        assert bound is not None
        assert 0 <= bound.share_of_warps <= 1
        assert bound.limited_by
        return bound.blocks

    now = blocks(registers, shared_bytes, threads)
    assert blocks(min(255, registers + 8), shared_bytes, threads) <= now
    assert blocks(registers, shared_bytes + 128, threads) <= now
    assert blocks(registers, shared_bytes, min(1024, threads + 32)) <= now


_CALCULATOR = r"""
#include <cstdio>
#include <cstdlib>
#include "cuda_occupancy.h"
int main(int, char** arguments) {
    cudaOccDeviceProp device;
    device.computeMajor = atoi(arguments[1]), device.computeMinor = atoi(arguments[2]);
    device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = atoi(arguments[3]) * 32;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536, device.warpSize = 32, device.numSms = 1;
    device.sharedMemPerBlock = 48 << 10, device.sharedMemPerMultiprocessor = atoi(arguments[4]);
    device.sharedMemPerBlockOptin = atoi(arguments[5]), device.reservedSharedMemPerBlock = atoi(arguments[6]);
    int registers, threads, shared;
    while (scanf("%d %d %d", &registers, &shared, &threads) == 3) {
        cudaOccFuncAttributes function;
        function.maxThreadsPerBlock = 1024, function.numRegs = registers, function.numBlockBarriers = 1;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, function.maxDynamicSharedSizeBytes = shared;
        cudaOccDeviceState state;
        cudaOccResult result;
        int failed = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, shared);
        printf("%d\n", failed ? -failed : result.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.mark.skipif(
    not any((folder / "cuda_occupancy.h").exists() for folder in _HEADERS),
    reason="no CUDA toolkit with cuda_occupancy.h under /usr/local",
)
def test_agrees_with_nvidias_calculator(tmp_path: Path) -> None:
    folder = next(folder for folder in _HEADERS if (folder / "cuda_occupancy.h").exists())
    (tmp_path / "calculator.cpp").write_text(_CALCULATOR)
    program = tmp_path / "calculator"
    subprocess.run(["g++", f"-I{folder}", tmp_path / "calculator.cpp", "-o", program], check=True)
    asked = [
        (registers, shared, threads) for registers in _REGISTERS for shared in _SHARED_BYTES for threads in _THREADS
    ]
    for architecture, limits in LIMITS.items():
        major, minor = divmod(int(architecture.removeprefix("sm_")), 10)
        shape = (limits.warps, limits.shared_bytes, limits.shared_bytes_a_block, limits.reserved_shared_bytes_a_block)
        answer = subprocess.run(
            [program, *map(str, (major, minor, *shape))],
            input="\n".join(" ".join(map(str, each)) for each in asked),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for each, blocks in zip(asked, answer, strict=True):
            bound = bound_occupancy(
                architecture, registers_a_thread=each[0], shared_bytes_a_block=each[1], threads_a_block=each[2]
            )
            assert bound is not None
            assert bound.blocks == int(blocks), (architecture, each)
