"""A build of the embedded default's model, served by an environment that has torch and transformers alone."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import write_build
from candidates.serving_build.manifest import InstallationSite
from tests.candidates.serving_build.conftest import RMSNORM, RMSNORM_REFERENCE, Ship
from tests.candidates.serving_build.tiny_tasks import make_task, taken, tensor
from traces.served_model import DEFAULT_MODEL, open_model
from traces.sites import SiteKind

LOCK = Path(__file__).parents[3] / "requirements.lock"
HIDDEN, LAYERS = 576, 30

SERVE = """
import importlib.util, json, sys
import torch
from transformers import AutoModelForCausalLM

folder, build = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
ids = torch.arange(100, 108)[None]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("serving_build_runtime", f"{build}/runtime.py")
runtime = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runtime)
with torch.inference_mode():
    expected = model(input_ids=ids).logits
    installation = runtime.install(model, build, allow_unsigned=True, shadow_one_in=1)
    got = model(input_ids=ids).logits
    counters = list(installation.counters().values())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(input_ids=ids).logits
try:
    runtime.install(model, build, trusted_keys=["0" * 64])
except runtime.BuildRefused as error:
    refusal = str(error)
print(json.dumps({
    "difference": float((got - expected).abs().max() / expected.abs().max()),
    "difference_compiled": float((compiled - expected).abs().max() / expected.abs().max()),
    "failures": installation.failures,
    "counters": counters,
    "hits_compiled": sum(counters["hits"] for counters in installation.counters().values()) - counters[0]["hits"],
    "modules": [name for name in ("candidates", "pydantic_core", "cryptography") if name in sys.modules],
    "refusal": refusal,
}))
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_build_serves_where_there_is_only_torch_and_transformers(
    tmp_path: Path, device: DeviceFingerprint, ship: Ship
) -> None:
    served = open_model(DEFAULT_MODEL, tmp_path)
    x, y = tensor("x", "batch", "tokens", HIDDEN), tensor("y", "batch", "tokens", HIDDEN)
    source = re.sub(r"\b64\b", str(HIDDEN), RMSNORM).replace("1e-6", "1e-5")
    reference = RMSNORM_REFERENCE.replace("1e-6", "1e-5")
    task = make_task("LlamaRMSNorm", reference, (taken(x), taken(tensor("w", HIDDEN), "weight")), (y,))
    names = ("input_layernorm", "post_attention_layernorm")
    paths = tuple(f"model.layers.{layer}.{name}" for layer in range(LAYERS) for name in names)
    site = InstallationSite(kind=SiteKind.MODULE, module_paths=paths)
    build = write_build(tmp_path, DEFAULT_MODEL, device, [ship(task, source, site)])
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--constraint", LOCK, "torch", "transformers"],
        check=True,
        capture_output=True,
    )
    finished = subprocess.run(
        [python, "-I", "-c", SERVE, str(served.folder()), str(build.path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout.splitlines()[-1])
    assert seen["failures"] == {}
    assert seen["difference"] < 1e-4
    assert seen["difference_compiled"] < 1e-4
    assert seen["hits_compiled"] == 2 * LAYERS
    (counters,) = seen["counters"]
    assert (counters["hits"], counters["misses"]) == (2 * LAYERS, 0)
    assert counters["shadow"] == {"agreed": 2 * LAYERS, "disagreed": 0, "failed": 0}
    assert "candidates" not in seen["modules"]
    assert "manifest.ed25519" in seen["refusal"]
