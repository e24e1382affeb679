"""The document that a container is made of, without an engine."""

from pathlib import Path

import pytest

from kernel_sandbox.docker_profile import container_config, device_requests
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.sandbox import Limits

IMAGE = f"sha256:{'1' * 64}"
GPU = "GPU-8f6d1cf0-5b2e-4f39-9f0c-1c2d3e4f5a6b"
SLICE = "MIG-5c1b0c2e-0c7e-5f3c-9d7a-2f6c2a0f8a11"


def config(limits: Limits, gpus: tuple[str, ...] = ()) -> dict:
    return container_config(IMAGE, limits, user="65534:65534", owner="us", read_only={Path("/"): "/given"}, gpus=gpus)


def test_nothing_is_left_open() -> None:
    made = config(Limits(memory_bytes=1 << 30, scratch_bytes=1 << 20, processes=40))
    host = made["HostConfig"]
    assert made["Image"] == IMAGE
    assert made["User"] == "65534:65534"
    assert made["NetworkDisabled"] is True
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["IpcMode"] == "private"
    assert host["PidsLimit"] == 41
    assert host["Memory"] == host["MemorySwap"] == (1 << 30) + (1 << 20)
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {"core": 0, "fsize": 1 << 20, "nofile": 4096}
    assert host["LogConfig"]["Type"] == "none"
    assert all(mount["ReadOnly"] for mount in host["Mounts"])
    assert host["DeviceRequests"] == []


def test_only_scratch_can_be_executed_from() -> None:
    folders = config(Limits())["HostConfig"]["Tmpfs"]
    assert {folder: options.split(",")[-1] for folder, options in folders.items()} == {
        "/scratch": "exec",
        "/tmp": "noexec",
        "/dev/shm": "noexec",
    }
    assert all("nosuid" in options and "nodev" in options and "size=" in options for options in folders.values())


def test_without_scratch_there_is_nothing_to_write_to() -> None:
    host = config(Limits(scratch_bytes=0))["HostConfig"]
    assert (host["Tmpfs"], host["IpcMode"]) == ({}, "none")


@pytest.mark.parametrize("gpus", [(GPU,), (SLICE,), (GPU, SLICE)])
def test_gpus_are_asked_for_by_their_ids(gpus: tuple[str, ...]) -> None:
    (request,) = config(Limits(), gpus)["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == list(gpus)
    assert request["Driver"] == "nvidia"
    assert request["Capabilities"] == [["gpu", "compute", "utility"]]


def test_gpus_are_asked_for_by_cdi_name() -> None:
    (request,) = device_requests([f"nvidia.com/gpu={GPU}", "nvidia.com/gpu=0:1"])
    assert request == {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={GPU}", "nvidia.com/gpu=0:1"]}


@pytest.mark.parametrize("gpus", [["all"], ["0"], [GPU, f"nvidia.com/gpu={GPU}"], ["nvidia.com/gpu"], [f"{GPU},all"]])
def test_other_names_of_gpus_are_refused(gpus: list[str]) -> None:
    with pytest.raises(ValueError, match="name GPUs all by UUID"):
        DockerSandbox(IMAGE, gpus)


@pytest.mark.parametrize("image", ["debian", "debian:12", "sha256:12", f"debian@{IMAGE}"])
def test_images_are_named_by_their_digest_alone(image: str) -> None:
    with pytest.raises(ValueError, match="not the sha256"):
        DockerSandbox(image)
