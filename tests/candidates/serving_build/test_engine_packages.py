"""The exports for vLLM and SGLang: built and installed by pip, found by their entry points, at work in a model."""

import dataclasses
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from target_contract import ServingTargetContract

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.build_files import as_archive
from candidates.serving_build.export_folder import write_export
from candidates.serving_build.manifest import InstallationSite
from candidates.serving_build.target import ServingTarget
from candidates.serving_build.targets.sglang import Sglang
from candidates.serving_build.targets.vllm import Vllm
from traces.sites import SiteKind

HERE = Path(__file__).parent
TARGETS: dict[str, ServingTarget] = {"vllm": Vllm(), "sglang": Sglang()}


class TestVllm(ServingTargetContract):
    @pytest.fixture
    def target(self) -> ServingTarget:
        return Vllm()


class TestSglang(ServingTargetContract):
    @pytest.fixture
    def target(self) -> ServingTarget:
        return Sglang()


@pytest.fixture(scope="module")
def norm_build(tmp_path_factory: pytest.TempPathFactory, rmsnorm: ShippedKernel, device: DeviceFingerprint) -> Build:
    kernel = dataclasses.replace(rmsnorm, site=InstallationSite(kind=SiteKind.MODULE, module_paths=("norm",)))
    return write_build(tmp_path_factory.mktemp("home"), "Tiny", device, [kernel])


@pytest.fixture(scope="module", params=TARGETS)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory, engine: str, norm_build: Build) -> Path:
    """Where pip installed the export to."""
    folder = tmp_path_factory.mktemp("exports") / engine
    export = TARGETS[engine].export(norm_build)
    write_export(export, engine, norm_build.id, folder)
    target = tmp_path_factory.mktemp("site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
         "--target", target, folder],
        check=True,
    )  # fmt: skip
    write_export(export, engine, norm_build.id, folder)  # what pip left there is in nobody's way
    return target


def run(engine: str, site_packages: Path, **environment: str) -> tuple[dict[str, Any], str]:
    """What an engine's process printed, and its log."""
    path = os.pathsep.join(map(str, (HERE / "engines", site_packages)))
    done = subprocess.run(
        [sys.executable, HERE / "engine_process.py", engine],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_an_engine_that_finds_the_plugin_computes_through_the_kernel(engine: str, site_packages: Path) -> None:
    shown, log = run(engine, site_packages)
    assert shown["entry_point"] == f"compiler_agent_{engine}_tiny"
    assert shown["hits"] == [3, 1]
    assert max(shown["errors"]) < 1e-5
    assert shown["events"] == {"not for this model": 1, "installed": 2, "obstacle": 1}
    assert "the serving build is for 'Tiny', not for 'acme/another'" in log
    assert "COMPILER_AGENT_DISABLE is set" in log


@pytest.mark.parametrize("name", ["kernels/*.so", "runtime.py"])
def test_a_changed_build_leaves_the_engine_as_it_is(
    engine: str, site_packages: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(site_packages, tmp_path / "site")
    (path,) = (tmp_path / "site").glob("*/serving_build.zip")
    with zipfile.ZipFile(path) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    (changed,) = fnmatch.filter(files, name)
    files[changed] += b" "
    path.write_bytes(as_archive(files))
    shown, log = run(engine, tmp_path / "site")
    assert shown["hits"] == []
    assert shown["events"]["error"] >= 2
    assert "installed" not in shown["events"]
    assert max(shown["errors"]) == 0
    assert f"{changed} has sha256" in log


def test_an_engine_of_another_interface_goes_on_without_the_plugin(
    engine: str, site_packages: Path, tmp_path: Path
) -> None:
    (tmp_path / engine).mkdir()
    (tmp_path / engine / "__init__.py").write_text("")
    code = (
        "import importlib.metadata as m, sys\n"
        "(p,) = [p for g in ('vllm.general_plugins', 'sglang.srt.plugins') for p in m.entry_points(group=g)]\n"
        "register = p.load(); register(); register()\n"
        "print(dict(sys.modules[register.__module__].events))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, site_packages)))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "{'error': 2}"
    assert "no serving build will be installed" in done.stderr
