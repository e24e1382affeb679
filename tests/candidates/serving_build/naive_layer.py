"""A decode step of a Llama's decoder layer and of its attention block in plain C++, and their tasks."""

from collections.abc import Sequence
from typing import Any

from candidates.call_shapes import name_call_shapes
from candidates.extraction import extract_task
from candidates.serving_build.manifest import InstallationSite, site_of
from candidates.site_call import describe_call
from candidates.task import KernelTask
from traces.capture import capture_calls, find_model_sites
from traces.replay.step import EngineStep
from traces.sites import CapturedSite

LAYER = """
#include <bits/stl_algobase.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
static float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  #pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
static void linear(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) y[i] = dot(x, w + i * columns, columns);
}
static void norm(const float* x, const float* w, float* y) {
  const float scale = 1.0f / std::sqrt(dot(x, x, HIDDEN) / HIDDEN + float(EPSILON));
  for (int i = 0; i < HIDDEN; ++i) y[i] = w[i] * (x[i] * scale);
}
static void rotate(float* x, const float* cos, const float* sin) {
  for (int d = 0; d < WIDTH / 2; ++d) {
    const float low = x[d], high = x[d + WIDTH / 2];
    x[d] = low * cos[d] - high * sin[d];
    x[d + WIDTH / 2] = high * cos[d + WIDTH / 2] + low * sin[d + WIDTH / 2];
  }
}
static void attend(const float* q_weight, const float* k_weight, const float* v_weight, const float* o_weight,
                   const float* x, const float* cos, const float* sin, float* keys, float* values, float* y,
                   int64_t context, int64_t capacity) {
  float q[HEADS * WIDTH], k[KV_HEADS * WIDTH], v[KV_HEADS * WIDTH], mixed[HEADS * WIDTH];
  linear(x, q_weight, q, HEADS * WIDTH, HIDDEN);
  linear(x, k_weight, k, KV_HEADS * WIDTH, HIDDEN);
  linear(x, v_weight, v, KV_HEADS * WIDTH, HIDDEN);
  float* weights = static_cast<float*>(std::malloc(context * sizeof(float)));
  for (int h = 0; h < KV_HEADS; ++h) {
    rotate(k + h * WIDTH, cos, sin);
    for (int d = 0; d < WIDTH; ++d) {
      keys[(h * capacity + context - 1) * WIDTH + d] = k[h * WIDTH + d];
      values[(h * capacity + context - 1) * WIDTH + d] = v[h * WIDTH + d];
    }
  }
  for (int h = 0; h < HEADS; ++h) {
    const int64_t own = h / (HEADS / KV_HEADS) * capacity * WIDTH;
    rotate(q + h * WIDTH, cos, sin);
    float largest = -INFINITY, total = 0;
    for (int64_t t = 0; t < context; ++t) {
      weights[t] = dot(q + h * WIDTH, keys + own + t * WIDTH, WIDTH) / std::sqrt(float(WIDTH));
      largest = std::max(largest, weights[t]);
    }
    double sums[WIDTH] = {};
    for (int64_t t = 0; t < context; ++t) {
      const float weight = std::exp(weights[t] - largest);
      total += weight;
      for (int d = 0; d < WIDTH; ++d) sums[d] += double(weight) * values[own + t * WIDTH + d];
    }
    for (int d = 0; d < WIDTH; ++d) mixed[h * WIDTH + d] = sums[d] / total;
  }
  std::free(weights);
  linear(mixed, o_weight, y, HIDDEN, HEADS * WIDTH);
}
"""
ATTENTION_ENTRY = """
extern "C" void kernel(const float* q, const float* k, const float* v, const float* o, const float* x,
                       const float* cos, const float* sin, float* keys, float* values, float* y,
                       int64_t batch, int64_t context, int64_t capacity) {
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t own = b * KV_HEADS * capacity * WIDTH;
    attend(q, k, v, o, x + b * HIDDEN, cos + b * WIDTH, sin + b * WIDTH, keys + own, values + own, y + b * HIDDEN,
           context, capacity);
  }
}
"""
LAYER_ENTRY = """
extern "C" void kernel(const float* q, const float* k, const float* v, const float* o, const float* gate,
                       const float* up, const float* down, const float* first_norm, const float* second_norm,
                       const float* x, const float* cos, const float* sin, float* keys, float* values, float* y,
                       int64_t batch, int64_t context, int64_t capacity) {
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t own = b * KV_HEADS * capacity * WIDTH;
    const float* in = x + b * HIDDEN;
    float* out = y + b * HIDDEN;
    float normed[HIDDEN], attended[HIDDEN], gated[INNER], raised[INNER];
    norm(in, first_norm, normed);
    attend(q, k, v, o, normed, cos + b * WIDTH, sin + b * WIDTH, keys + own, values + own, attended, context, capacity);
    for (int i = 0; i < HIDDEN; ++i) attended[i] += in[i];
    norm(attended, second_norm, normed);
    linear(normed, gate, gated, INNER, HIDDEN);
    linear(normed, up, raised, INNER, HIDDEN);
    for (int i = 0; i < INNER; ++i) gated[i] = gated[i] / (1.0f + std::exp(-gated[i])) * raised[i];
    linear(gated, down, out, HIDDEN, INNER);
    for (int i = 0; i < HIDDEN; ++i) out[i] += attended[i];
  }
}
"""


def layer_source(config: Any) -> str:
    return _sizes(config) + LAYER + LAYER_ENTRY


def attention_source(config: Any) -> str:
    return _sizes(config) + LAYER + ATTENTION_ENTRY


def _sizes(config: Any) -> str:
    sizes = {
        "HIDDEN": config.hidden_size,
        "HEADS": config.num_attention_heads,
        "KV_HEADS": config.num_key_value_heads,
        "WIDTH": config.hidden_size // config.num_attention_heads,
        "INNER": config.intermediate_size,
        "EPSILON": config.rms_norm_eps,
    }
    return "".join(f"#define {name} {size}\n" for name, size in sizes.items())


def decode_step(batch: int, context: int, count: float = 1.0) -> EngineStep:
    return EngineStep(
        prefill_tokens=0,
        prefill_context=0,
        decode_batch=batch,
        decode_context=context,
        count=count,
        duration_s=1.0,
        share_by_class={"chat": 1.0},
    )


def capture_site(fake: Any, op: str, steps: Sequence[EngineStep]) -> CapturedSite:
    (site,) = (each for each in find_model_sites(fake) if each.op == op)
    sites = [each for each in find_model_sites(fake) if each.op == op or each.level == "layer"]
    return next(each for each in capture_calls(fake, sites, steps, span_s=3600.0) if each.site.op == site.op)


def extract_op(fake: Any, model: Any, op: str, steps: Sequence[EngineStep]) -> tuple[KernelTask, InstallationSite]:
    """The op's task, and where its kernels go."""
    captured = capture_site(fake, op, steps)
    task = extract_task(model, captured, time_us=lambda _: 1.0, device_id="cpu-test", threads=1)
    shapes = name_call_shapes(captured.calls)
    assert isinstance(task, KernelTask), task
    assert shapes is not None
    return task, site_of(captured.site, [captured.site], describe_call(model, captured.site, task, shapes))
