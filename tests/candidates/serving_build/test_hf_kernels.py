"""The export for Hugging Face `kernels`, loaded by that package itself."""

import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import kernels
import pytest
import torch
from kernels.layer.layer import _validate_layer
from target_contract import ServingTargetContract
from torch import nn
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

from candidates.error_bound import allowed_error
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.export_folder import write_export
from candidates.serving_build.runtime import BuildRefused, install
from candidates.serving_build.target import ServingTarget
from candidates.serving_build.targets.hf_kernels import VARIANT, HfKernels
from candidates.task import ErrorBound

BOUND = ErrorBound(scaled_error=1e-6)


class TestHfKernels(ServingTargetContract):
    @pytest.fixture
    def target(self) -> ServingTarget:
        return HfKernels()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "hf"
    write_export(HfKernels().export(build), "hf-kernels", build.id, folder)
    return folder


@pytest.fixture(scope="module")
def package(folder: Path) -> ModuleType:
    return kernels.get_local_kernel(folder, backend="cpu")


@pytest.fixture
def kernelized(model: LlamaForCausalLM, folder: Path) -> Iterator[LlamaForCausalLM]:
    """A Llama whose norms and query projections are replaced by `kernels.kernelize`."""

    class Norm(modeling_llama.LlamaRMSNorm):
        pass

    class Projection(nn.Linear):
        pass

    for module in list(model.modules()):
        if type(module) is modeling_llama.LlamaRMSNorm:
            module.__class__ = Norm
        elif isinstance(module, modeling_llama.LlamaAttention):
            module.q_proj.__class__ = Projection
    kernels.replace_kernel_forward_from_hub(Norm, "Norm")
    kernels.replace_kernel_forward_from_hub(Projection, "Projection")
    mapping = {
        name: {"cpu": kernels.LocalLayerRepository(folder, layer_name=layer)}
        for name, layer in (("Norm", "LlamaRMSNorm"), ("Projection", "Linear"))
    }
    with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
        mode = kernels.Mode.INFERENCE | kernels.Mode.TORCH_COMPILE
        yield kernels.kernelize(model, mode=mode, device="cpu", use_fallback=False)


def logits(model: nn.Module, tokens: int) -> torch.Tensor:
    ids = torch.arange(tokens).unsqueeze(0) % 128
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=ids).logits
    return found


def hits(package: ModuleType, name: str) -> int:
    found: int = package.counters().get(name, {"hits": 0})["hits"]
    return found


def require_within_bound(got: torch.Tensor, exact: torch.Tensor) -> None:
    assert ((got.double() - exact).abs() <= allowed_error(BOUND, exact, torch.float32)).all()


def test_functions_meet_the_error_bound_of_their_task(package: ModuleType) -> None:
    x, weight = torch.randn(1, 7, 64), torch.randn(64)
    wide = x.double()
    exact = weight.double() * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6))
    before = hits(package, "llama_rms_norm")
    require_within_bound(package.llama_rms_norm(x, weight), exact)
    gate, up = torch.randn(1, 3, 96), torch.randn(1, 3, 96)
    require_within_bound(package.llama_mlp_region0(gate, up), nn.functional.silu(gate.double()) * up.double())
    assert hits(package, "llama_rms_norm") == before + 1
    assert package.counters()["llama_mlp_region0"]["misses"] == 0


def test_a_function_of_a_shape_that_did_not_win_computes_the_ops_definition(package: ModuleType) -> None:
    x, weight = torch.randn(1, 65, 64), torch.randn(64)
    expected = weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
    torch.testing.assert_close(package.llama_rms_norm(x, weight), expected)
    assert package.counters()["llama_rms_norm"]["miss_reasons"]["shape not won"] == 1


def test_layers_obey_the_rules_of_the_package(package: ModuleType) -> None:
    for layer, replaced in (
        (package.layers.LlamaRMSNorm, modeling_llama.LlamaRMSNorm),
        (package.layers.Linear, nn.Linear),
    ):
        _validate_layer(check_cls=replaced, cls=layer, repo=None)  # type: ignore[arg-type]


def test_layers_serve_a_model_that_adopts_them(kernelized: LlamaForCausalLM, package: ModuleType) -> None:
    originals = [module.forward for module in kernelized.modules()]
    norms, projections = hits(package, "llama_rms_norm"), hits(package, "linear")
    got = logits(kernelized, 4)
    assert (hits(package, "llama_rms_norm"), hits(package, "linear")) == (norms + 5, projections + 2)
    assert [module.forward for module in kernelized.modules()] == originals
    for module in kernelized.modules():
        module.__dict__.pop("forward", None)
    torch.testing.assert_close(got, logits(kernelized, 4), rtol=1e-4, atol=1e-4)


def test_adopted_layers_compile_without_graph_breaks(kernelized: LlamaForCausalLM, package: ModuleType) -> None:
    expected = logits(kernelized, 6)
    before = hits(package, "llama_rms_norm")
    layer = torch.compile(kernelized.model.norm, fullgraph=True, backend="eager")
    x = torch.randn(1, 4, 64)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), kernelized.model.norm(x))
    compiled = torch.compile(kernelized, fullgraph=True, backend="eager")
    torch.testing.assert_close(logits(compiled, 6), expected, rtol=1e-4, atol=1e-4)
    assert hits(package, "llama_rms_norm") >= before + 7


def test_a_compiled_graph_of_one_module_never_serves_another(kernelized: LlamaForCausalLM) -> None:
    norms = [kernelized.model.layers[index].input_layernorm for index in range(2)]
    norms[1].weight.data.mul_(3.0)
    forward = torch.compile(lambda norm, x: norm(x), fullgraph=True, backend="eager")
    x = torch.randn(1, 2, 64)
    with torch.no_grad():
        torch.testing.assert_close(forward(norms[1], x), forward(norms[0], x) * 3.0)


def test_a_layer_by_itself_falls_back_to_the_ops_definition(package: ModuleType) -> None:
    layer = package.layers.LlamaRMSNorm()
    layer.weight = nn.Parameter(torch.randn(64))
    x = torch.randn(1, 70, 64)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), layer.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)))


def test_a_build_beside_the_package_has_its_own_kernels(
    model: LlamaForCausalLM, build: Build, package: ModuleType
) -> None:
    """Two copies of the runtime in one process: neither may serve by what the other loaded."""
    package.llama_mlp_region0(torch.randn(1, 3, 96), torch.randn(1, 3, 96))
    expected = logits(model, 4)
    installation = install(model, build.path)
    torch.testing.assert_close(logits(model, 4), expected, rtol=1e-4, atol=1e-4)
    package.llama_rms_norm(torch.randn(1, 1, 64), torch.randn(64))
    torch.testing.assert_close(logits(model, 4), expected, rtol=1e-4, atol=1e-4)
    assert installation.failures == {}
    installation.uninstall()


def test_gradients_flow_through_the_adopting_modules_own_code(kernelized: LlamaForCausalLM) -> None:
    kernelized.model.norm(torch.randn(1, 2, 64, requires_grad=True)).sum().backward()
    assert kernelized.model.norm.weight.grad is not None


@pytest.mark.parametrize("ending", [".so", "runtime.py", "tasks/*.json"])
def test_a_changed_file_is_refused_before_it_is_loaded(build: Build, tmp_path: Path, ending: str) -> None:
    write_export(HfKernels().export(build), "hf-kernels", build.id, tmp_path / "hf")
    (changed, *_) = sorted(path for path in (tmp_path / "hf").rglob(f"builds/layers/*/**/*{ending}"))
    changed.write_bytes(changed.read_bytes() + b" ")
    code = (
        "import kernels, pathlib\n"
        f"try: kernels.get_local_kernel(pathlib.Path({str(tmp_path / 'hf')!r}), backend='cpu')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("FileRefused")
    assert changed.name in shown


def test_a_build_that_its_runtime_refuses_leaves_the_ops_definition(build: Build, tmp_path: Path) -> None:
    write_export(HfKernels().export(build), "hf-kernels", build.id, tmp_path / "hf")
    (manifest,) = (tmp_path / "hf").rglob("builds/functions/llama_rms_norm/manifest.json")
    manifest.write_text(manifest.read_text().replace('"high": 64', '"high": 9999'))
    code = (
        "import json, kernels, pathlib, torch\n"
        f"p = kernels.get_local_kernel(pathlib.Path({str(tmp_path / 'hf')!r}), backend='cpu')\n"
        "y = p.llama_rms_norm(torch.full((1, 100, 64), 3.0), torch.ones(64))\n"
        "print(json.dumps([float((y - 1).abs().max()), p.counters()['llama_rms_norm']]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    error, shown = json.loads(done.stdout)
    assert error < 1e-6
    assert shown["hits"] == 0
    assert "manifest.json was changed after the build was written" in shown["obstacles"][0]
    assert "no kernel serves llama_rms_norm" in done.stderr


def test_kill_switch_serves_no_kernel(folder: Path) -> None:
    code = (
        f"import kernels, pathlib, torch\np = kernels.get_local_kernel(pathlib.Path({str(folder)!r}), backend='cpu')\n"
        "p.llama_rms_norm(torch.ones(1, 1, 64), torch.ones(64)); print(p.counters()['llama_rms_norm'])"
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "COMPILER_AGENT_DISABLE": "1",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
    }
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "'hits': 0" in shown.stdout
    assert "COMPILER_AGENT_DISABLE is set" in shown.stdout


def test_metadata_lists_the_digest_of_every_other_file(folder: Path) -> None:
    metadata = json.loads((folder / "build" / VARIANT / "metadata.json").read_text())
    found = {
        path for path in (folder / "build" / VARIANT).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert {str(path.relative_to(folder / "build" / VARIANT)) for path in found} == {
        *metadata["digest"]["files"], "metadata.json",
    }  # fmt: skip
    assert metadata["python-depends"] == []


def test_source_and_artifact_of_every_kernel_come_along(folder: Path, build: Build) -> None:
    for entry in build.manifest.kernels:
        assert (folder / "source" / f"{entry.id}.cpp").read_bytes() == (
            build.path / f"kernels/{entry.id}.cpp"
        ).read_bytes()
        assert list(folder.glob(f"build/{VARIANT}/builds/*/*/{entry.library}"))


def test_what_packs_weights_is_a_layer_only(package: ModuleType) -> None:
    assert not hasattr(package.functions, "linear")
    assert list(inspect.signature(package.layers.Linear.forward).parameters) == ["self", "x"]


def test_two_phases_of_a_site_are_one_layer(tmp_path: Path, rmsnorm: ShippedKernel, ship: Any, device: Any) -> None:
    phases = [
        ship(
            rmsnorm.task.model_copy(update={"op": f"Norm.{phase}"}),
            rmsnorm.candidate.source + f"// {phase}\n",
            rmsnorm.site,
        )
        for phase in ("decode", "prefill")
    ]
    export = HfKernels().export(write_build(tmp_path, "tiny", device, phases))
    layers = export.files[f"build/{VARIANT}/layers.py"].decode()
    assert layers.count("class ") == 1
    assert "class Norm(nn.Module)" in layers
    functions = export.files[f"build/{VARIANT}/functions.py"].decode()
    assert "def norm_decode(x, w)" in functions


def test_a_build_that_was_changed_is_not_exported(build: Build, tmp_path: Path) -> None:
    copy = Build(id=build.id, path=tmp_path / "build", manifest=build.manifest)
    shutil.copytree(build.path, copy.path)
    library = copy.path / build.manifest.kernels[0].library
    library.write_bytes(library.read_bytes() + b" ")
    with pytest.raises(BuildRefused, match=library.name):
        HfKernels().export(copy)
