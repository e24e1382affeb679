"""Ceilings that no machine which runs these tests reaches."""

from candidates.device import BandwidthCeiling, DeviceCeilings


def generous_ceilings(speed: float = 1.0) -> DeviceCeilings:
    """Of a device faster than any that runs these tests, times `speed`; caches as on most servers."""
    levels = tuple(
        BandwidthCeiling(working_set_bytes=size, bytes_per_s=speed * rate)
        for size, rate in ((32 << 10, 1e12), (1 << 20, 5e11), (32 << 20, 3e11), (128 << 20, 1e11))
    )
    return DeviceCeilings(
        device_id="cpu-of-tests",
        threads=1,
        read=levels,
        copy_bandwidth=levels,
        flops_per_s={"float32": speed * 1e13},
        dispatch_us=1.0,
    )
