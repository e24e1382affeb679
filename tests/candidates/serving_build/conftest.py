"""A tiny Llama with random weights, and a real build for it: kernels compiled from C++ by g++."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from candidates.candidate import Candidate, LanguageName
from candidates.device import DeviceFingerprint
from candidates.measurement import Decision
from candidates.serving_build import runtime, signing
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import Bound, InstallationSite, ShapeRange
from candidates.task import KernelTask
from tests.candidates.serving_build.tiny_tasks import local_device, make_measurement, make_task, taken, tensor
from traces.sites import SiteKind

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 64, 96, 4, 2, 16, 128

RMSNORM = """
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t batch, int64_t tokens) {
  for (int64_t row = 0; row < batch * tokens; ++row) {
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += double(x[row * 64 + i]) * x[row * 64 + i];
    const float scale = 1.0 / std::sqrt(sum / 64 + 1e-6);
    for (int i = 0; i < 64; ++i) y[row * 64 + i] = x[row * 64 + i] * scale * weight[i];
  }
}
"""
LINEAR = """
#include <cstdint>
extern "C" int64_t pack_bytes() { return 64 * 64 * 4; }
extern "C" void pack(const float* weight, void* prepared) {
  float* packed = static_cast<float*>(prepared);
  for (int n = 0; n < 64; ++n) for (int k = 0; k < 64; ++k) packed[k * 64 + n] = weight[n * 64 + k];
}
extern "C" void kernel(const float* x, const float* weight, float* y, const void* prepared,
                       int64_t batch, int64_t tokens) {
  const float* packed = static_cast<const float*>(prepared);
  for (int64_t row = 0; row < batch * tokens; ++row)
    for (int n = 0; n < 64; ++n) {
      double sum = 0;
      for (int k = 0; k < 64; ++k) sum += double(x[row * 64 + k]) * packed[k * 64 + n];
      y[row * 64 + n] = sum;
    }
}
"""
ROPE = """
#include <cstdint>
static void rotate(const float* x, const float* cos, const float* sin, float* y, int64_t b, int64_t t, int heads) {
  for (int64_t i = 0; i < b; ++i) for (int64_t j = 0; j < t; ++j) for (int h = 0; h < heads; ++h) {
    const int64_t row = ((i * t + j) * heads + h) * 16, angle = (i * t + j) * 16;
    for (int d = 0; d < 16; ++d) {
      const float turned = d < 8 ? -x[row + d + 8] : x[row + d - 8];
      y[row + d] = x[row + d] * cos[angle + d] + turned * sin[angle + d];
    }
  }
}
extern "C" void kernel(const float* q, const float* k, const float* cos, const float* sin, float* q_out, float* k_out,
                       int64_t batch, int64_t tokens) {
  rotate(q, cos, sin, q_out, batch, tokens, 4);
  rotate(k, cos, sin, k_out, batch, tokens, 2);
}
"""
SWIGLU = """
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* gate, const float* up, float* y, int64_t batch, int64_t tokens) {
  for (int64_t i = 0; i < batch * tokens * 96; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}
"""
MLP_BLOCK = """
def make_forward(regions):
    def forward(self, x):
        return self.down_proj(regions["region0"](self.gate_proj(x), self.up_proj(x)))
    return forward
"""
RMSNORM_REFERENCE = """
def reference(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
"""
LINEAR_REFERENCE = "def reference(x, weight):\n    return torch.nn.functional.linear(x, weight)\n"
ROPE_REFERENCE = """
def reference(q, k, cos, sin):
    def turn(x):
        return torch.cat((-x[..., 8:], x[..., :8]), -1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + turn(q) * sin, k * cos + turn(k) * sin
"""
SWIGLU_REFERENCE = "def reference(gate, up):\n    return torch.nn.functional.silu(gate) * up\n"


def compiled(source: str, folder: Path) -> bytes:
    (folder / "kernel.cpp").write_text(source)
    subprocess.run(
        ["g++", "-O2", "-shared", "-fPIC", "-o", folder / "kernel.so", folder / "kernel.cpp"], check=True, cwd=folder
    )
    return (folder / "kernel.so").read_bytes()


@pytest.fixture(autouse=True)
def unsigned_builds_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests about trust take back."""
    for name in (runtime.TRUSTED_KEYS, runtime.SHADOW_ONE_IN, signing.SIGNING_KEY, runtime.KILL_SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(runtime.ALLOW_UNSIGNED, "1")


@pytest.fixture(scope="session")
def device() -> DeviceFingerprint:
    return local_device()


Ship = Callable[..., ShippedKernel]


@pytest.fixture(scope="session")
def ship(tmp_path_factory: pytest.TempPathFactory) -> Ship:
    artifacts: dict[str, bytes] = {}

    def make(
        task: KernelTask, source: str, site: InstallationSite, ranges: tuple[ShapeRange, ...] = ((),), **names: str
    ) -> ShippedKernel:
        if source not in artifacts:
            artifacts[source] = compiled(source, tmp_path_factory.mktemp("kernel"))
        return ShippedKernel(
            task=task,
            candidate=Candidate(language=LanguageName.CPP, source=source, **names),
            artifact=artifacts[source],
            site=site,
            measurement=make_measurement(task, {"batch=1,tokens=1": Decision.WIN}),
            ranges=ranges,
        )

    return make


def layer_paths(path: str) -> tuple[str, ...]:
    return tuple(f"model.layers.{layer}.{path}" for layer in range(2))


def rows_up_to(rows: int) -> tuple[ShapeRange, ...]:
    return ((Bound(axes=("batch", "tokens"), low=1, high=rows),),)


@pytest.fixture(scope="session")
def rmsnorm(ship: Ship) -> ShippedKernel:
    """Serves up to 64 rows."""
    x, y = tensor("x", "batch", "tokens", HIDDEN), tensor("y", "batch", "tokens", HIDDEN)
    task = make_task("LlamaRMSNorm", RMSNORM_REFERENCE, (taken(x), taken(tensor("w", HIDDEN), "weight")), (y,))
    paths = (*layer_paths("input_layernorm"), *layer_paths("post_attention_layernorm"), "model.norm")
    return ship(task, RMSNORM, InstallationSite(kind=SiteKind.MODULE, module_paths=paths), rows_up_to(64))


@pytest.fixture(scope="session")
def linear(ship: Ship) -> ShippedKernel:
    """Packs its weight; serves up to 8 rows."""
    x, y = tensor("x", "batch", "tokens", HIDDEN), tensor("y", "batch", "tokens", HIDDEN)
    task = make_task("Linear", LINEAR_REFERENCE, (taken(x), taken(tensor("w", HIDDEN, HIDDEN), "weight")), (y,))
    site = InstallationSite(kind=SiteKind.MODULE, module_paths=layer_paths("self_attn.q_proj"))
    return ship(task, LINEAR, site, rows_up_to(8), prepare="pack")


@pytest.fixture(scope="session")
def rope(ship: Ship) -> ShippedKernel:
    heads = [("q", HEADS), ("k", KV_HEADS)]
    rotated = [tensor(name, "batch", count, "tokens", HEAD_DIM, dim_order=(0, 2, 1, 3)) for name, count in heads]
    angles = [tensor(name, "batch", "tokens", HEAD_DIM) for name in ("cos", "sin")]
    outputs = tuple(spec.model_copy(update={"name": f"{spec.name}_out"}) for spec in rotated)
    inputs = tuple(taken(spec) for spec in (*rotated, *angles))
    task = make_task("apply_rotary_pos_emb", ROPE_REFERENCE, inputs, outputs)
    function = "transformers.models.llama.modeling_llama.apply_rotary_pos_emb"
    return ship(task, ROPE, InstallationSite(kind=SiteKind.FUNCTION, module_paths=(), function=function))


@pytest.fixture(scope="session")
def swiglu(ship: Ship) -> ShippedKernel:
    gate, up, y = (tensor(name, "batch", "tokens", INTERMEDIATE) for name in ("gate", "up", "y"))
    task = make_task("LlamaMLP.region0", SWIGLU_REFERENCE, (taken(gate), taken(up)), (y,))
    site = InstallationSite(
        kind=SiteKind.REGION,
        module_paths=layer_paths("mlp"),
        region="region0",
        block_source=MLP_BLOCK,
        region_sources={"region0": SWIGLU_REFERENCE.replace("def reference", "def region")},
    )
    return ship(task, SWIGLU, site)


@pytest.fixture(scope="session")
def build(
    tmp_path_factory: pytest.TempPathFactory,
    rmsnorm: ShippedKernel,
    linear: ShippedKernel,
    rope: ShippedKernel,
    swiglu: ShippedKernel,
) -> Build:
    """All four kernels; tests copy it before they change a byte."""
    return write_build(tmp_path_factory.mktemp("home"), "tiny", local_device(), [rmsnorm, linear, rope, swiglu])


@pytest.fixture
def model() -> Iterator[LlamaForCausalLM]:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    yield LlamaForCausalLM(config).eval()
    torch._dynamo.reset()
