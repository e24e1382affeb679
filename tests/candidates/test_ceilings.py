"""Fingerprint and ceilings of the machine that runs the tests."""

from pathlib import Path

from candidates.ceilings import cache_sizes_bytes, fingerprint_device, measure_ceilings


def test_fingerprint_is_stable_and_names_a_queue() -> None:
    first, second = fingerprint_device(), fingerprint_device()
    assert first == second
    assert first.id.startswith("cpu-")
    assert "g++" in first.compiler


def test_machine_without_a_compiler_has_a_fingerprint() -> None:
    assert fingerprint_device(compiler="no-such-compiler").compiler == "none"


def test_caches_grow_from_level_to_level() -> None:
    sizes = cache_sizes_bytes()
    assert list(sizes) == sorted(sizes)


def test_ceilings_are_positive_and_kept(tmp_path: Path) -> None:
    fingerprint = fingerprint_device()
    ceilings = measure_ceilings(fingerprint, 1, tmp_path)
    assert len(ceilings.read) == len(fingerprint.cache_bytes) + 1
    assert ceilings.flops_per_s["float32"] > 0
    assert ceilings.dispatch_us > 0
    assert measure_ceilings(fingerprint, 1, tmp_path) == ceilings
