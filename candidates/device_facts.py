"""device_facts: a device in plain lines, for whoever writes kernels for it."""

from candidates.device import DeviceCeilings, DeviceFingerprint

_VECTOR_ISAS = (
    ("avx512f", "AVX-512, 512-bit vectors"),
    ("avx2", "AVX2, 256-bit vectors"),
    ("avx", "AVX, 256-bit vectors"),
    ("sse4_2", "SSE4.2, 128-bit vectors"),
    ("sve", "SVE, vectors of a length known at run time"),
    ("asimd", "NEON, 128-bit vectors"),
)
"""As /proc/cpuinfo names them; the widest of a device comes first."""


def device_facts(device: DeviceFingerprint, ceilings: DeviceCeilings | None) -> str:
    """Model, cores, vectors, caches, and the best rates that were measured with `ceilings.threads` threads.

    Raises ValueError for ceilings of another device.
    """
    vectors = next((words for feature, words in _VECTOR_ISAS if feature in device.features), "no vectors known")
    lines = [
        f"{device.kind.upper()}: {device.model}, {device.cores} cores",
        f"Vector instructions: {vectors} (all of {' '.join(device.features) or 'none reported'})",
        "Caches: " + ", ".join(f"L{level} {_size(size)}" for level, size in enumerate(device.cache_bytes, start=1)),
        f"Compiler: {device.compiler}",
    ]
    return "\n".join(lines if ceilings is None else [*lines, *_rates(device, ceilings)])


def _rates(device: DeviceFingerprint, ceilings: DeviceCeilings) -> list[str]:
    if ceilings.device_id != device.id:
        raise ValueError(f"ceilings of {ceilings.device_id} are not those of {device.id}")
    lines = [f"Best rates measured with {ceilings.threads} thread{'s' if ceilings.threads > 1 else ''}:"]
    for number, (read, copied) in enumerate(zip(ceilings.read, ceilings.copy_bandwidth, strict=True), start=1):
        is_memory = number == len(ceilings.read)
        place = "from memory" if is_memory else f"within L{number} (working set up to {_size(read.working_set_bytes)})"
        lines.append(f"  {place}: read {read.bytes_per_s / 1e9:.1f} GB/s, copy {copied.bytes_per_s / 1e9:.1f} GB/s")
    lines += [
        f"  multiply-adds in {name}: {rate / 1e9:.1f} GFLOP/s" for name, rate in sorted(ceilings.flops_per_s.items())
    ]
    lines.append(f"One call of a kernel by the serving runtime adds {ceilings.dispatch_us:.1f} us")
    return lines


def _size(size_bytes: int) -> str:
    is_large = size_bytes >= 1 << 20 and size_bytes % (1 << 20) == 0
    return f"{size_bytes >> 20} MiB" if is_large else f"{size_bytes / 1024:g} KiB"
