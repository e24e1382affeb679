"""The judge accepts right kernels of every kind that a task can ask for."""

import pytest
from judge_tasks import LINEAR, RMSNORM, STATE_TASK, input_spec, judge_source, make_task, output_spec

from candidates.task import ElementType
from candidates.verdict import Accepted, EvidenceKind

RMSNORM_SOURCE = """
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * 576;
        float sum = 0;
        #pragma omp simd reduction(+ : sum)
        for (int i = 0; i < 576; ++i) sum += in[i] * in[i];
        float scale = 1.0f / std::sqrt(sum / 576 + 1e-5f);
        for (int i = 0; i < 576; ++i) y[row * 576 + i] = in[i] * scale * weight[i];
    }
}
"""


def test_accepts_a_right_rmsnorm() -> None:
    verdict = judge_source(RMSNORM, RMSNORM_SOURCE)
    assert isinstance(verdict, Accepted), verdict
    assert verdict.evidence is EvidenceKind.NATIVE
    assert 0 < verdict.worst_error_in_bounds < 1
    # All distributions at every public shape, some at the hidden one, each twice.
    assert verdict.calls_checked == 2 * (3 * 7 + 3)


def test_one_seed_gives_one_verdict() -> None:
    verdicts = [judge_source(RMSNORM, RMSNORM_SOURCE, seed=11) for _ in range(2)]
    assert verdicts[0] == verdicts[1]


def test_accepts_openmp_with_the_threads_of_serving() -> None:
    verdict = judge_source(RMSNORM.model_copy(update={"threads": 2}), RMSNORM_SOURCE)
    assert isinstance(verdict, Accepted), verdict


def test_accepts_two_activations() -> None:
    task = make_task(
        "silu_mul",
        "def reference(gate, up):\n    return torch.nn.functional.silu(gate) * up\n",
        [input_spec("gate", ("rows", 96)), input_spec("up", ("rows", 96))],
        [output_spec("y", ("rows", 96))],
    )
    source = """
    extern "C" void kernel(const float* gate, const float* up, float* y, int64_t rows) {
        for (int64_t i = 0; i < rows * 96; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
    """
    verdict = judge_source(task, source)
    assert isinstance(verdict, Accepted), verdict


def test_accepts_strided_inputs() -> None:
    task = make_task(
        "add_heads",
        "def reference(q, k):\n    return (q + k).contiguous()\n",
        [input_spec("q", ("rows", 4, 16), dim_order=(1, 0, 2)), input_spec("k", ("rows", 4, 16))],
        [output_spec("y", ("rows", 4, 16))],
    )
    source = """
    extern "C" void kernel(const float* q, const float* k, float* y, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row)
            for (int head = 0; head < 4; ++head)
                for (int i = 0; i < 16; ++i) {
                    int64_t at = (row * 4 + head) * 16 + i;
                    y[at] = q[(head * rows + row) * 16 + i] + k[at];
                }
    }
    """
    verdict = judge_source(task, source)
    assert isinstance(verdict, Accepted), verdict


def test_accepts_a_state_updated_in_place() -> None:
    source = """
    extern "C" void kernel(const float* x, float* total, float* peak, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) {
            float largest = 0;
            for (int i = 0; i < 64; ++i) {
                float& sum = total[row * 64 + i];
                sum += x[row * 64 + i];
                largest = std::max(largest, std::fabs(sum));
            }
            peak[row] = largest;
        }
    }
    """
    verdict = judge_source(STATE_TASK, source)
    assert isinstance(verdict, Accepted), verdict


PACKED_LINEAR_SOURCE = """
extern "C" int64_t pack_bytes() { return 48 * 64 * sizeof(float); }
extern "C" void pack(const float* weight, void* prepared) {
    float* transposed = static_cast<float*>(prepared);
    for (int out = 0; out < 48; ++out)
        for (int in = 0; in < 64; ++in) transposed[in * 48 + out] = weight[out * 64 + in];
}
extern "C" void kernel(const float* x, const float* weight, float* y, const void* prepared, int64_t rows) {
    const float* transposed = static_cast<const float*>(prepared);
    for (int64_t row = 0; row < rows; ++row) {
        float sums[48] = {};
        for (int in = 0; in < 64; ++in)
            for (int out = 0; out < 48; ++out) sums[out] += x[row * 64 + in] * transposed[in * 48 + out];
        std::copy(sums, sums + 48, y + row * 48);
    }
}
"""


def test_accepts_packed_parameters() -> None:
    verdict = judge_source(LINEAR, PACKED_LINEAR_SOURCE, prepare="pack")
    assert isinstance(verdict, Accepted), verdict


def test_accepts_bfloat16() -> None:
    task = make_task(
        "double",
        "def reference(x):\n    return x * 2\n",
        [input_spec("x", ("rows", 32), element_type=ElementType.BFLOAT16)],
        [output_spec("y", ("rows", 32), ElementType.BFLOAT16)],
    )
    source = """
    extern "C" void kernel(const uint16_t* x, uint16_t* y, int64_t rows) {
        for (int64_t i = 0; i < rows * 32; ++i) {
            uint32_t wide = uint32_t(x[i]) << 16;
            float value;
            std::memcpy(&value, &wide, 4);
            value *= 2;
            std::memcpy(&wide, &value, 4);
            y[i] = wide >> 16;
        }
    }
    """
    verdict = judge_source(task, source)
    assert isinstance(verdict, Accepted), verdict


@pytest.mark.parametrize(("element_type", "c_type"), [(ElementType.INT64, "int64_t"), (ElementType.BOOL, "uint8_t")])
def test_accepts_integers_and_bools(element_type: ElementType, c_type: str) -> None:
    reference = "x.argmax(-1)" if element_type is ElementType.INT64 else "(x.argmax(-1) > 0)"
    task = make_task(
        "argmax",
        f"def reference(x):\n    return {reference}\n",
        [input_spec("x", ("rows", 16))],
        [output_spec("y", ("rows",), element_type)],
    )
    result = "best" if element_type is ElementType.INT64 else "best > 0"
    source = f"""
    extern "C" void kernel(const float* x, {c_type}* y, int64_t rows) {{
        for (int64_t row = 0; row < rows; ++row) {{
            int64_t best = 0;
            for (int i = 1; i < 16; ++i) best = x[row * 16 + i] > x[row * 16 + best] ? i : best;
            y[row] = {result};
        }}
    }}
    """
    verdict = judge_source(task, source)
    assert isinstance(verdict, Accepted), verdict


def test_infinite_results_must_be_infinite() -> None:
    task = make_task(
        "reciprocal",
        "def reference(x):\n    return 1 / torch.round(x)\n",
        [input_spec("x", ("rows", 64))],
        [output_spec("y", ("rows", 64))],
    )
    source = """
    extern "C" void kernel(const float* x, float* y, int64_t rows) {
        for (int64_t i = 0; i < rows * 64; ++i) y[i] = 1 / std::nearbyint(x[i]);
    }
    """
    verdict = judge_source(task, source)
    assert isinstance(verdict, Accepted), verdict
