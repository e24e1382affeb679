"""Limits of GPU architectures, and the occupancy that they leave a kernel."""

import pytest

from candidates.languages.gpu_architectures import Architecture, find_architecture
from candidates.languages.gpu_instructions import count_kinds


def architecture(name: str) -> Architecture:
    found = find_architecture(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "warps", "share", "limited_by"),
    [
        (64, 0, 4, 1.0, ("registers", "warps")),
        (65, 0, 4, 7 / 8, ("registers",)),
        (128, 0, 4, 4 / 8, ("registers",)),
        (512, 0, 4, 1 / 8, ("registers",)),
        (513, 0, 4, 0.0, ("registers",)),
        (32, 33 << 10, 4, 1 / 8, ("shared memory",)),
        (32, 65 << 10, 4, 0.0, ("shared memory",)),
        (32, 0, 16, 1.0, ("warps",)),
        (64, 0, 1, 1.0, ("registers", "warps")),
        (128, 0, 2, 4 / 8, ("registers",)),
    ],
)
def test_bounds_a_kernel_on_mi300(
    registers: int, shared_bytes: int, warps: int, share: float, limited_by: tuple[str, ...]
) -> None:
    bound = architecture("gfx942").bound_occupancy(registers=registers, shared_bytes=shared_bytes, warps=warps)
    assert bound is not None
    assert (bound.share_of_warps, bound.limited_by) == (share, limited_by)


def test_bounds_a_kernel_on_h100_by_nvidias_arithmetic() -> None:
    bound = architecture("sm_90").bound_occupancy(registers=128, shared_bytes=0, warps=4)
    assert bound is not None
    assert bound.share_of_warps == 0.25


def test_targets_are_as_triton_names_them() -> None:
    assert architecture("sm_90").as_target() | {"most_shared_bytes": 0} == {
        "name": "sm_90",
        "backend": "cuda",
        "arch": 90,
        "threads_a_warp": 32,
        "most_shared_bytes": 0,
        "most_threads": 1024,
    }
    assert architecture("gfx942").as_target()["arch"] == "gfx942"
    assert find_architecture("sm_1") is None


def test_refuses_figures_that_no_kernel_has() -> None:
    with pytest.raises(ValueError, match="no kernel has -1 registers"):
        architecture("gfx942").bound_occupancy(registers=-1, shared_bytes=0, warps=1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ld.global.v4.b32", "128-bit global load"),
        ("ld.global.L1::evict_last.v2.b64", "128-bit global load"),
        ("ld.volatile.global.b16", "16-bit global load"),
        ("st.global.b8", "8-bit global store"),
        ("global_load_dwordx4", "128-bit global load"),
        ("buffer_store_dword", "32-bit global store"),
        ("global_load_ushort", "16-bit global load"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "matrix multiply"),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "matrix multiply"),
        ("tcgen05.mma.cta_group::1.kind::f16", "matrix multiply"),
        ("v_mfma_f32_16x16x4_f32", "matrix multiply"),
        ("cp.async.cg.shared.global", "async copy to shared"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared load"),
        ("st.local.b32", "local memory"),
        ("bar.sync", "barrier"),
        ("ex2.approx.f32", "special function"),
        ("v_fma_f32", "fused multiply-add"),
    ],
)
def test_tells_kinds_of_instructions(name: str, kind: str) -> None:
    assert count_kinds({name: 3, "mov.b32": 5, "s_nop": 1, "cp.async.commit_group": 1}) == {kind: 3}
