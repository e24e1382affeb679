"""GPUs of one model share a fingerprint; each is lent by a lock of its own."""

from dataclasses import replace
from pathlib import Path

import pytest

from candidates.gpu_fingerprint import fingerprint_gpu, gpu_lock_file
from tests.fake_gpu import FACTS

OTHER = replace(FACTS, uuid="GPU-11111111-1111-1111-1111-111111111111")
SLICE = replace(FACTS, uuid="MIG-22222222-2222-2222-2222-222222222222", model="Fake GPU 1 MIG 1g", multiprocessors=1)


def test_the_fingerprint_is_of_the_model_and_not_of_the_one_gpu() -> None:
    fingerprint = fingerprint_gpu(FACTS, "nvcc 13.0.88")
    assert fingerprint.id == fingerprint_gpu(OTHER, "nvcc 13.0.88").id
    assert fingerprint.id.startswith("cuda-")
    assert fingerprint.features == ("sm_90",)


def test_a_part_of_a_gpu_and_another_compiler_are_other_devices() -> None:
    ids = {
        fingerprint_gpu(FACTS, "nvcc 13.0.88").id,
        fingerprint_gpu(SLICE, "nvcc 13.0.88").id,
        fingerprint_gpu(FACTS, "nvcc 12.9.1").id,
    }
    assert len(ids) == 3


def test_every_gpu_has_a_lock_of_its_own() -> None:
    assert gpu_lock_file(FACTS.uuid) != gpu_lock_file(OTHER.uuid)
    assert gpu_lock_file(SLICE.uuid).name == f"compiler-agent-{SLICE.uuid}.lock"


@pytest.mark.parametrize("uuid", ["", "0", "GPU-../../etc/passwd", str(Path("/tmp/x"))])
def test_a_lock_is_for_a_uuid_alone(uuid: str) -> None:
    with pytest.raises(ValueError, match="no UUID"):
        gpu_lock_file(uuid)
