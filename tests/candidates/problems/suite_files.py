"""Small problems of our own in the layouts of public suites, and kernels for them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candidates.problems.problem import DefinitionDocuments
from candidates.task import KernelTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    task: KernelTask
    documents: DefinitionDocuments


GATED_MLP = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden)

    def forward(self, x, scale):
        return torch.sigmoid(self.gate(x)) * self.up(x) * scale


batch_size = 6
width = 24
hidden = 10


def get_inputs():
    return [torch.rand(batch_size, width), 0.5]


def get_init_inputs():
    return [width, hidden]
"""

GATED_MLP_KERNEL = """\
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* gate, const float* up, const float* bias, const float* x, float* output) {
    for (int row = 0; row < 6; ++row)
        for (int out = 0; out < 10; ++out) {
            double g = 0, u = bias[out];
            for (int in = 0; in < 24; ++in) {
                g += double(x[row * 24 + in]) * gate[out * 24 + in];
                u += double(x[row * 24 + in]) * up[out * 24 + in];
            }
            output[row * 10 + out] = 1 / (1 + std::exp(-g)) * u * SCALE;
        }
}
"""

CROSS_ENTROPY = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.nn.functional.cross_entropy(predictions, targets)


def get_inputs():
    return [torch.rand(32, 7), torch.arange(32) % 7]
"""

BATCH_NORM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, *, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)
        self.register_buffer("order", torch.arange(channels).flip(0))

    def forward(self, x):
        return self.norm(x)[:, self.order]


def get_inputs():
    return [torch.rand(16, 5)]


def get_init_inputs():
    return {"channels": 5}
"""

RMSNORM: dict[str, Any] = {
    "name": "rmsnorm_h64",
    "op_type": "rmsnorm",
    "description": "Root mean square norm.",
    "axes": {
        "batch": {"type": "var", "note": "rows"},
        "H": {"type": "const", "value": 64},
    },
    "inputs": {
        "X": {"shape": ["batch", "H"], "dtype": "float32", "optional": False},
        "weight": {"shape": ["H"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"Y": {"shape": ["batch", "H"], "dtype": "float32"}},
    "reference": (
        "import torch\n\n\n@torch.no_grad()\ndef run(x, weight, eps):\n    batch, hidden = x.shape\n"
        "    assert hidden == 64\n    wide = x.to(torch.float32)\n"
        "    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)\n"
    ),
    "tags": ["status:draft"],
    "a field of somebody": {"kept": [1, None, "as it is"]},
}

RMSNORM_KERNEL = """\
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t batch) {
    for (int64_t row = 0; row < batch; ++row) {
        double sum = 0;
        for (int i = 0; i < 64; ++i) sum += double(x[row * 64 + i]) * x[row * 64 + i];
        double scale = 1 / std::sqrt(sum / 64 + EPS);
        for (int i = 0; i < 64; ++i) y[row * 64 + i] = x[row * 64 + i] * scale * weight[i];
    }
}
"""


def workload_line(uuid: str, axes: dict[str, int], inputs: dict[str, Any], definition: str = "rmsnorm_h64") -> str:
    workload = {"uuid": uuid, "axes": axes, "inputs": inputs, "source": "a trace"}
    return json.dumps({"definition": definition, "workload": workload, "solution": None, "evaluation": None})


RMSNORM_INPUTS: dict[str, Any] = {
    "X": {"type": "random"},
    "weight": {"type": "random"},
    "eps": {"type": "scalar", "value": 1e-5},
}


def write_rmsnorm_dataset(
    root: Path, definition: dict[str, Any] = RMSNORM, inputs: dict[str, Any] = RMSNORM_INPUTS
) -> Path:
    """Two workloads, of 3 and of 20 rows, the first asked for twice; the path of the definition."""
    path = root / "definitions" / "rmsnorm" / "rmsnorm_h64.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(definition, indent=2))
    lines = [workload_line(f"wl-{index}", {"batch": rows}, inputs) for index, rows in enumerate((3, 20, 3))]
    workloads = root / "workloads" / "rmsnorm" / "rmsnorm_h64.jsonl"
    workloads.parent.mkdir(parents=True)
    workloads.write_text("\n".join(lines) + "\n")
    return path
