"""What goes to a device and comes back, on a fake one; the C ABI of a CUDA kernel, with a host object in its place."""

import subprocess
from pathlib import Path

import pytest
import torch

from kernel_sandbox.runners.device_slots import GUARD_BYTES, BareSlot, CudaKernel, DeviceSlot
from kernel_sandbox.runners.gpu_device import DeviceFault
from tests.fake_gpu import FakeGpu


@pytest.fixture
def arena() -> torch.Tensor:
    return torch.arange(4096, dtype=torch.int64).to(torch.uint8)


def test_nothing_is_written_before_the_device_is_waited_for(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 1024, 64, is_result=True)
    gpu.launch(lambda: slot.content.fill_(7).sum(), us=5)
    assert slot.content[0] == arena[1024]
    slot.copy_back()
    assert arena[1024:1088].tolist() == [7] * 64


def test_work_on_a_stream_of_the_kernels_own_is_waited_for(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 1024, 64, is_result=True)
    gpu.launch(lambda: slot.content.fill_(9).sum(), us=500, stream=3)
    slot.copy_back()
    assert arena[1024] == 9


def test_a_write_beside_an_output_comes_back_with_it(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    before = arena.clone()
    slot = DeviceSlot(gpu, arena, 1024, 64, is_result=True)
    memory = gpu.allocations[-1]
    at = _offset_of(slot, memory.whole)
    gpu.launch(lambda: memory.whole[at + 64 : at + 65].fill_(99).sum(), us=5)
    slot.copy_back()
    assert arena[1088] == 99
    assert torch.equal(arena[1089 : 1088 + GUARD_BYTES], before[1089 : 1088 + GUARD_BYTES])


@pytest.mark.parametrize("distance", [GUARD_BYTES + 64, -GUARD_BYTES - 1])
def test_a_write_far_beside_an_output_breaks_a_guard_of_the_arena(arena: torch.Tensor, distance: int) -> None:
    gpu = FakeGpu()
    before = arena.clone()
    slot = DeviceSlot(gpu, arena, 1024, 64, is_result=True)
    memory = gpu.allocations[-1]
    at = _offset_of(slot, memory.whole) + distance
    gpu.launch(lambda: memory.whole[at : at + 1].fill_(1).sum(), us=5)
    slot.copy_back()
    assert not torch.equal(arena[1088 : 1088 + GUARD_BYTES], before[1088 : 1088 + GUARD_BYTES])


def test_an_output_at_the_end_of_the_arena_has_one_guard(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 4032, 64, is_result=True)
    memory = gpu.allocations[-1]
    before = arena.clone()
    slot.copy_back()
    assert torch.equal(arena, before)
    memory.whole[-1] = 1
    slot.copy_back()
    assert not torch.equal(arena, before)


def test_what_is_read_beyond_an_input_is_nan(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 1000, 64, is_result=False)
    whole = gpu.allocations[-1].whole
    at = _offset_of(slot, whole)
    assert torch.equal(slot.content, arena[1000:1064])
    assert bool((whole[at + 64 : at + 128] == 0xFF).all())
    assert bool((whole[at - 64 : at] == 0xFF).all())
    assert at % 256 == 0
    assert not slot.has_changed()


def test_a_changed_input_shows(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 1000, 64, is_result=False)
    gpu.launch(lambda: slot.content[:1].add_(1).sum(), us=5)
    assert slot.has_changed()


@pytest.mark.parametrize("offset", [0, 1024, 4032])
def test_without_guards_a_tensor_is_memory_of_exactly_its_size(arena: torch.Tensor, offset: int) -> None:
    gpu = FakeGpu()
    slot = BareSlot(gpu, arena, offset, 64, is_result=True)
    assert slot.content.untyped_storage().nbytes() == 64
    assert torch.equal(slot.content, arena[offset : offset + 64])
    assert not slot.has_changed()
    before = arena.clone()
    gpu.launch(lambda: slot.content.fill_(5).sum(), us=5)
    assert slot.has_changed()
    slot.copy_back()
    before[offset : offset + 64] = 5
    assert torch.equal(arena, before)


def test_a_fault_is_for_good(arena: torch.Tensor) -> None:
    gpu = FakeGpu()
    slot = DeviceSlot(gpu, arena, 1024, 64, is_result=True)
    gpu.launch(lambda: gpu.fault("an illegal memory access was encountered"), us=5)
    with pytest.raises(DeviceFault, match="illegal"):
        slot.copy_back()
    for use in (gpu.synchronise, gpu.mark, slot.has_changed, lambda: gpu.allocate(arena)):
        with pytest.raises(DeviceFault, match="illegal"):
            use()


@pytest.mark.parametrize("kind", [DeviceSlot, BareSlot])
def test_a_fault_of_what_ran_before_shows_at_a_refill(arena: torch.Tensor, kind: type[DeviceSlot | BareSlot]) -> None:
    gpu = FakeGpu()
    slot = kind(gpu, arena, 1024, 64, is_result=False)
    arena[1024:1088] = 3
    slot.refill()
    assert slot.content.tolist() == [3] * 64
    gpu.launch(lambda: gpu.fault("an illegal memory access was encountered"), us=5)
    with pytest.raises(DeviceFault, match="illegal"):
        slot.refill()


def test_free_memory_holds_no_results_once_poisoned() -> None:
    gpu = FakeGpu()
    assert gpu.empty(4).tolist() == [0x42] * 4
    gpu.poison_free_memory()
    assert gpu.empty(4).tolist() == [0xFF] * 4


def test_calls_the_c_abi_with_the_stream_last(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(
        "#include <cstdint>\n"
        'extern "C" void compiler_agent_call(void* const* t, const void* p, const int64_t* s, void* stream) {\n'
        "  for (int64_t i = 0; i < s[0]; ++i)\n"
        "    ((uint8_t*)t[1])[i] = ((const uint8_t*)t[0])[i] + ((const uint8_t*)p)[0] + (stream == nullptr);\n"
        "}\n"
        'extern "C" int64_t compiler_agent_prepared_bytes() { return 1; }\n'
        'extern "C" void compiler_agent_prepare(void* const* t, void* p, void* stream) {\n'
        "  *(uint8_t*)p = *(const uint8_t*)t[0] + (stream == nullptr);\n"
        "}\n"
    )
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", tmp_path / "kernel.so"], check=True)
    gpu = FakeGpu()
    kernel = CudaKernel(str(tmp_path / "kernel.so"), has_prepare=True)
    prepared = kernel.prepare(gpu, [torch.tensor([10], dtype=torch.uint8)])
    x, y = torch.arange(4, dtype=torch.uint8), torch.zeros(4, dtype=torch.uint8)
    kernel.call(gpu, [x, y], prepared, [4])
    assert y.tolist() == [12, 13, 14, 15]


def _offset_of(slot: DeviceSlot, whole: torch.Tensor) -> int:
    return slot.content.data_ptr() - whole.data_ptr()
