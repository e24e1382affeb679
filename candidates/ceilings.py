"""Measuring which device this is and what it can do at best: DeviceFingerprint and DeviceCeilings of a CPU."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from candidates.device import BandwidthCeiling, DeviceCeilings, DeviceFingerprint
from candidates.dispatch import measure_dispatch_us
from candidates.whole_file import write_whole

TYPICAL_CACHE_BYTES = (32 << 10, 1 << 20, 32 << 20)
"""Assumed where the system reports no caches, as some virtual machines do."""

_FEATURES = re.compile(r"avx.*|amx.*|fma|f16c|bmi[12]|sse4_2|vaes|vpclmulqdq|gfni|sve.*|asimd.*|i8mm|bf16")
_MEMORY_WORKING_SET_OVER_LAST_CACHE = 4


class CeilingsUnmeasurable(Exception):
    """The probe could not be built or run; the machine is at fault, and the message says what to install."""


def fingerprint_device(compiler: str = "g++") -> DeviceFingerprint:
    """The CPU that this process runs on."""
    facts = _cpu_facts()
    features = (facts.get("flags") or facts.get("Features") or "").split()
    return DeviceFingerprint(
        kind="cpu",
        model=_model(facts),
        features=tuple(sorted(feature for feature in features if _FEATURES.fullmatch(feature))),
        cores=os.cpu_count() or 1,
        cache_bytes=cache_sizes_bytes(),
        compiler=_compiler_version(compiler),
        torch_version=torch.__version__,
    )


def measure_ceilings(fingerprint: DeviceFingerprint, threads: int, cache_dir: Path) -> DeviceCeilings:
    """Best rates with `threads` threads; a few seconds, kept in `cache_dir` per device and thread count.

    Raises CeilingsUnmeasurable without a C++ compiler.
    """
    kept = cache_dir / f"ceilings-{fingerprint.id}-{threads}.json"
    if kept.exists():
        return DeviceCeilings.model_validate_json(kept.read_text())
    ceilings = _probe(fingerprint, threads)
    if threads > 1:
        # On a busy machine threads wait for each other, and one alone is faster.
        alone = measure_ceilings(fingerprint, 1, cache_dir)
        ceilings = raise_ceilings(ceilings, alone)
    write_whole(kept, ceilings.model_dump_json().encode())
    return ceilings


def measure_ceilings_again(known: DeviceCeilings) -> DeviceCeilings:
    """`known`, raised to what this machine shows now: for a time that looks too good to be true."""
    return raise_ceilings(known, _probe(fingerprint_device(), known.threads))


def raise_ceilings(known: DeviceCeilings, seen: DeviceCeilings) -> DeviceCeilings:
    """The better of two measurements of one device in every rate; what is not a rate stays as it was known."""

    def better(old: tuple[BandwidthCeiling, ...], new: tuple[BandwidthCeiling, ...]) -> tuple[BandwidthCeiling, ...]:
        return tuple(max(pair, key=lambda level: level.bytes_per_s) for pair in zip(old, new, strict=True))

    return DeviceCeilings(
        device_id=known.device_id,
        threads=known.threads,
        read=better(known.read, seen.read),
        copy_bandwidth=better(known.copy_bandwidth, seen.copy_bandwidth),
        flops_per_s={name: max(rate, seen.flops_per_s.get(name, 0.0)) for name, rate in known.flops_per_s.items()},
        dispatch_us=known.dispatch_us,
    )


def cache_sizes_bytes() -> tuple[int, ...]:
    """Data and unified caches of core 0, L1 first."""
    sizes: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            sizes[int((index / "level").read_text())] = int(size.rstrip("KM")) << (20 if size.endswith("M") else 10)
    return tuple(size for _, size in sorted(sizes.items())) or TYPICAL_CACHE_BYTES


def _cpu_facts() -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    return facts


def _model(facts: dict[str, str]) -> str:
    if "model name" in facts:
        return (
            f"{facts['model name']} family {facts.get('cpu family')} model {facts.get('model')} "
            f"stepping {facts.get('stepping')}"
        )
    return f"{platform.machine()} implementer {facts.get('CPU implementer')} part {facts.get('CPU part')}"


def _compiler_version(compiler: str) -> str:
    try:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return "none"
    return version.splitlines()[0]


def _probe(fingerprint: DeviceFingerprint, threads: int) -> DeviceCeilings:
    levels = (*fingerprint.cache_bytes, _MEMORY_WORKING_SET_OVER_LAST_CACHE * fingerprint.cache_bytes[-1])
    # Half of a cache surely fits into it; private caches hold that much for each thread.
    measured = [size // 2 * (threads if size < fingerprint.cache_bytes[-1] else 1) for size in levels[:-1]]
    source = resources.files("candidates.benchmark") / "ceilings_probe.cpp"
    with TemporaryDirectory() as folder, resources.as_file(source) as path:
        program = Path(folder) / "ceilings_probe"
        _build(["-O3", "-ffast-math", "-fopenmp", str(path), "-o", str(program)])
        arguments = [str(threads), *map(str, (*measured, levels[-1]))]
        answer = json.loads(subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout)

    def rates(kind: str) -> tuple[BandwidthCeiling, ...]:
        return tuple(
            BandwidthCeiling(working_set_bytes=size, bytes_per_s=level[kind])
            for size, level in zip(levels, answer["levels"], strict=True)
        )

    return DeviceCeilings(
        device_id=fingerprint.id,
        threads=threads,
        read=rates("read"),
        copy_bandwidth=rates("copy"),
        flops_per_s=answer["flops_per_s"],
        dispatch_us=measure_dispatch_us(fingerprint),
    )


def _build(arguments: Sequence[str]) -> None:
    try:
        subprocess.run(["g++", "-march=native", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise CeilingsUnmeasurable("no g++ found: install it, for example with `apt install g++`") from error
    except subprocess.CalledProcessError as error:
        raise CeilingsUnmeasurable(f"g++ could not build the ceilings probe: {error.stderr}") from error
