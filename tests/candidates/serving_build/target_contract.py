"""What every ServingTarget keeps; subclass it with a fixture `target`."""

import ast
import dataclasses
import shutil
import tomllib
from pathlib import Path

import pytest

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, read_build, write_build
from candidates.serving_build.export_folder import write_export
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.target import ServingTarget

HOSTILE = '"); import os; os.system("touch /tmp/owned") #\n../../Évil[class]"""\'\\'


class ServingTargetContract:
    def test_the_same_build_gives_the_same_bytes(self, target: ServingTarget, build: Build, tmp_path: Path) -> None:
        elsewhere = tmp_path / "another place"
        shutil.copytree(build.path, elsewhere)
        assert target.export(build) == target.export(read_build(elsewhere))

    def test_every_kernel_is_carried_or_left_out_with_a_reason(self, target: ServingTarget, build: Build) -> None:
        export = target.export(build)
        assert {*export.carried, *(each.kernel_id for each in export.left_out)} == {
            k.id for k in build.manifest.kernels
        }
        assert all(each.reason for each in export.left_out)
        assert export.carried

    def test_a_build_for_a_gpu_is_left_out_in_clear_words(
        self, target: ServingTarget, rmsnorm: ShippedKernel, tmp_path: Path
    ) -> None:
        device = DeviceFingerprint(
            kind="cuda", model="GPU of tests", features=("sm_90",), cores=1, cache_bytes=(1,), compiler="nvcc",
            torch_version="2",
        )  # fmt: skip
        kernel = dataclasses.replace(
            rmsnorm,
            task=rmsnorm.task.model_copy(update={"device_id": device.id}),
            measurement=rmsnorm.measurement.model_copy(update={"device_id": device.id}),
        )
        export = target.export(write_build(tmp_path, "tiny", device, [kernel]))
        assert (export.files, export.carried) == ({}, ())
        assert ["carries kernels for CPUs alone" in each.reason for each in export.left_out] == [True]

    def test_hostile_names_stay_out_of_paths_and_code(
        self, target: ServingTarget, rmsnorm: ShippedKernel, device: DeviceFingerprint, tmp_path: Path
    ) -> None:
        kernel = dataclasses.replace(rmsnorm, task=rmsnorm.task.model_copy(update={"op": HOSTILE, "site": HOSTILE}))
        build = write_build(tmp_path, HOSTILE, device, [kernel])
        export = target.export(build)
        write_export(export, "any", build.id, tmp_path / "export")
        for name, content in export.files.items():
            assert all(part.isascii() and part.replace("_", "a").replace("-", "a").replace(".", "a").isalnum()
                       for part in name.split("/")), name  # fmt: skip
            if name.endswith(".py"):
                assert "os.system" not in content.decode()
                ast.parse(content)
            if name.endswith(".toml"):
                assert "os.system" not in content.decode()
                tomllib.loads(content.decode())

    def test_a_manifest_that_points_outside_of_the_build_is_refused(self, target: ServingTarget, build: Build) -> None:
        files = build.manifest.files | {"../outside": "0" * 64}
        manifest = build.manifest.model_copy(update={"files": files})
        with pytest.raises(BuildRefused, match="outside"):
            target.export(Build(id=build.id, path=build.path, manifest=manifest))
