"""Device facts: every figure in words, no folder, and never those of another device."""

import pytest

from candidates.device import BandwidthCeiling, DeviceCeilings, DeviceFingerprint
from candidates.device_facts import device_facts
from candidates.ledger.known_device import known_device_facts
from candidates.ledger.ledger import Ledger
from tests.candidates.past_searches import double_task

DEVICE = DeviceFingerprint(
    kind="cpu",
    model="AMD EPYC family 25 model 17 stepping 1",
    features=("avx", "avx2", "avx512f", "fma"),
    cores=2,
    cache_bytes=(48 << 10, 1 << 20, 32 << 20),
    compiler="g++ (Debian 12.2.0-14) 12.2.0",
    torch_version="2.11",
)
LEVELS = tuple(
    BandwidthCeiling(working_set_bytes=size, bytes_per_s=rate)
    for size, rate in ((48 << 10, 2e11), (1 << 20, 1e11), (32 << 20, 5e10), (128 << 20, 2.5e10))
)
CEILINGS = DeviceCeilings(
    device_id=DEVICE.id,
    threads=1,
    read=LEVELS,
    copy_bandwidth=LEVELS,
    flops_per_s={"float32": 1.18e11},
    dispatch_us=5.7,
)


def test_every_fact_is_a_plain_line():
    assert device_facts(DEVICE, CEILINGS).splitlines() == [
        "CPU: AMD EPYC family 25 model 17 stepping 1, 2 cores",
        "Vector instructions: AVX-512, 512-bit vectors (all of avx avx2 avx512f fma)",
        "Caches: L1 48 KiB, L2 1 MiB, L3 32 MiB",
        "Compiler: g++ (Debian 12.2.0-14) 12.2.0",
        "Best rates measured with 1 thread:",
        "  within L1 (working set up to 48 KiB): read 200.0 GB/s, copy 200.0 GB/s",
        "  within L2 (working set up to 1 MiB): read 100.0 GB/s, copy 100.0 GB/s",
        "  within L3 (working set up to 32 MiB): read 50.0 GB/s, copy 50.0 GB/s",
        "  from memory: read 25.0 GB/s, copy 25.0 GB/s",
        "  multiply-adds in float32: 118.0 GFLOP/s",
        "One call of a kernel by the serving runtime adds 5.7 us",
    ]


def test_without_ceilings_the_device_alone_is_told():
    assert device_facts(DEVICE, None).splitlines() == device_facts(DEVICE, CEILINGS).splitlines()[:4]


def test_what_the_ledger_knows_is_told_and_no_more(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    task = double_task(device_id=DEVICE.id)
    assert known_device_facts(ledger, task) == ""
    ledger.put_device(DEVICE)
    assert known_device_facts(ledger, task) == device_facts(DEVICE, None)
    ledger.put_ceilings(CEILINGS)
    assert known_device_facts(ledger, task) == device_facts(DEVICE, CEILINGS)


def test_a_device_without_known_vectors_says_so():
    plain = DEVICE.model_copy(update={"features": ()})
    assert "no vectors known" in device_facts(plain, CEILINGS.model_copy(update={"device_id": plain.id}))


def test_ceilings_of_another_device_are_refused():
    with pytest.raises(ValueError, match="ceilings of cpu-other"):
        device_facts(DEVICE, CEILINGS.model_copy(update={"device_id": "cpu-other"}))
