"""Sanitizers through the real compiler and sandbox: what they find and how they say it, and that right kernels pass."""

import numpy as np
import pytest
from judge_tasks import INCLUDES, RMSNORM, SANDBOX, input_spec, make_task, output_spec
from test_honest_kernels import LINEAR, PACKED_LINEAR_SOURCE, RMSNORM_SOURCE, STATE_TASK

from candidates.candidate import Candidate, LanguageName
from candidates.judge.reduced_shapes import reduced_calls
from candidates.judge.sanitizers import Sanitized, Sanitizers, SanitizersUnavailable, check_sanitizers
from candidates.language import BuildRecipe
from candidates.languages.cpp import CppLanguage
from candidates.task import ElementType, ErrorBound, KernelTask, SiteLevel, Workload
from candidates.verdict import Reason, Rejected

SANITIZERS = Sanitizers(SANDBOX, CppLanguage())
SIGNATURE = 'extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) '
HONEST = RMSNORM_SOURCE.replace('extern "C" void kernel', "static void honest")


def check(task: KernelTask, source: str, prepare: str | None = None) -> Sanitized | Rejected:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + source, prepare=prepare)
    return SANITIZERS.check(task, candidate, seed=7)


def reject_body(body: str, before: str = "", threads: int = 1) -> Rejected:
    """A right rmsnorm whose kernel then does `body`."""
    source = f"{before}\n{HONEST}\n{SIGNATURE}{{ honest(x, weight, y, rows);\n{body} }}"
    verdict = check(RMSNORM.model_copy(update={"threads": threads}), source)
    assert isinstance(verdict, Rejected), verdict
    return verdict


def assert_passes(task: KernelTask, source: str, prepare: str | None = None) -> None:
    found = check(task, source, prepare)
    assert isinstance(found, Sanitized), found
    assert "rows=3" in found.shapes


@pytest.mark.parametrize("threads", [1, 2])
def test_a_right_rmsnorm_passes(threads: int) -> None:
    assert_passes(RMSNORM.model_copy(update={"threads": threads}), RMSNORM_SOURCE)


def test_packed_parameters_pass() -> None:
    assert_passes(LINEAR, PACKED_LINEAR_SOURCE, "pack")


def test_a_state_passes() -> None:
    assert_passes(
        STATE_TASK,
        """
        extern "C" void kernel(const float* x, float* total, float* peak, int64_t rows) {
            for (int64_t row = 0; row < rows; ++row) {
                peak[row] = 0;
                for (int64_t i = row * 64; i < row * 64 + 64; ++i)
                    peak[row] = std::max(peak[row], std::fabs(total[i] += x[i]));
            }
        }
        """,
    )


def test_bfloat16_passes() -> None:
    task = make_task(
        "double",
        "def reference(x):\n    return x * 2\n",
        [input_spec("x", ("rows", 31), element_type=ElementType.BFLOAT16)],
        [output_spec("y", ("rows", 31), ElementType.BFLOAT16)],
    )
    assert_passes(
        task,
        """
        extern "C" void kernel(const uint16_t* x, uint16_t* y, int64_t rows) {
            for (int64_t i = 0; i < rows * 31; ++i) {
                uint32_t wide = uint32_t(x[i]) << 16;
                float value;
                std::memcpy(&value, &wide, 4);
                value *= 2;
                std::memcpy(&wide, &value, 4);
                y[i] = wide >> 16;
            }
        }
        """,
    )


def test_intrinsics_and_own_scratch_pass() -> None:
    """Unaligned vectors, a masked tail that ends where the tensor does, scratch that grows with the shape."""
    assert_passes(
        make_task(
            "double",
            "def reference(x):\n    return x * 2\n",
            [input_spec("x", ("rows", 33))],
            [output_spec("y", ("rows", 33))],
        ),
        """
        #include <vector>
        typedef float vector __attribute__((vector_size(32), aligned(4)));
        extern "C" void kernel(const float* x, float* y, int64_t rows) {
            static std::vector<float> scratch;
            if (int64_t(scratch.size()) < rows * 33) scratch.resize(rows * 33);
            for (int64_t i = 0; i < rows * 33; ++i) scratch[i] = x[i];
            int64_t i = 0;
            for (; i + 8 <= rows * 33; i += 8) *(vector*)(y + i) = *(const vector*)(scratch.data() + i) * 2.0f;
            for (; i < rows * 33; ++i) y[i] = scratch[i] * 2;
        }
        """,
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("volatile float v = x[rows * 576];", "reads 4 bytes, 0 bytes beyond the end of x"),
        ("y[rows * 576] = 1;", "writes 4 bytes, 0 bytes beyond the end of y"),
        ("y[rows * 576 + 9000] = 1;", "writes 4 bytes, 36000 bytes beyond the end of y"),
        ("volatile float v = x[-1];", "reads 4 bytes, 4 bytes before the start of x"),
        ("y[-1] = 1;", "writes 4 bytes, 4 bytes before the start of y"),
        ("volatile float v = weight[576];", "beyond the end of weight (2304 bytes)"),
        ("const_cast<float*>(x)[1] = 0;", "into x (2304 bytes), which is an input"),
        ("static const float* last; if (last) { volatile float v = last[1]; } last = x;", "of an earlier call"),
        ("static float* s; if (!s) s = new float[8](); else delete[] s; volatile float v = s[3];", "use-after-free"),
        ("static float* s = new float[rows]; s[rows - 1] = 1; y[0] += s[rows - 1] - 1;", "heap-buffer-overflow"),
    ],
)
def test_finds_memory_errors_and_says_where(body: str, message: str) -> None:
    verdict = reject_body(body)
    assert verdict.reason is Reason.MEMORY_ERROR
    assert message in verdict.evidence.message
    # The line after the honest kernel's, in the candidate's own file.
    line = (INCLUDES + f"\n{HONEST}\n{SIGNATURE}").count("\n") + 2
    assert f"candidate.cpp:{line}" in verdict.evidence.message
    assert verdict.workload is not None
    assert "AddressSanitizer" in verdict.evidence.log_tail
    assert "sanitizer_runner: " not in verdict.evidence.log_tail


def test_finds_an_error_in_a_thread() -> None:
    body = "\n#pragma omp parallel num_threads(2)\n if (omp_get_thread_num() == 1) y[rows * 576] = 1;"
    verdict = reject_body(body, "#include <omp.h>", threads=2)
    assert verdict.reason is Reason.MEMORY_ERROR
    assert "beyond the end of y" in verdict.evidence.message


def test_finds_what_only_a_larger_shape_shows() -> None:
    verdict = reject_body("static float* s = new float[rows]; s[rows - 1] = 1; y[0] += s[rows - 1] - 1;")
    assert verdict.workload == "rows=3"


def test_finds_a_stack_overflow() -> None:
    before = "static int deep(int n) { volatile char a[999]; a[n % 999] = 1; return n < 0 ? 0 : deep(n + 1) + a[3]; }"
    verdict = reject_body("y[0] += deep(rows) * 0.0f;", before)
    assert verdict.reason is Reason.MEMORY_ERROR
    assert "stack-overflow" in verdict.evidence.message


def test_finds_an_error_beside_prepared_parameters() -> None:
    verdict = check(LINEAR, PACKED_LINEAR_SOURCE.replace("in < 64; ++in)", "in < 65; ++in)", 1), "pack")
    assert isinstance(verdict, Rejected)
    assert verdict.reason is Reason.MEMORY_ERROR
    assert verdict.workload is None
    assert "prepared" in verdict.evidence.message or "weight" in verdict.evidence.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("volatile int big = 2147483647; big = big + int(rows);", "signed integer overflow"),
        ("volatile int64_t v = *(const int64_t*)((const char*)x + 1);", "misaligned address"),
        ("volatile int by = 40; volatile int v = 1 << by;", "shift exponent 40 is too large"),
        ("volatile float* volatile none = nullptr; *none = 1;", "null pointer"),
        ("float a[8]; volatile int k = 8; a[k] = 1; volatile float v = a[k - 1];", "index 8 out of bounds"),
        ("volatile int zero = 0; volatile int v = 1 / zero;", "division by zero"),
    ],
)
def test_finds_undefined_behaviour(body: str, message: str) -> None:
    verdict = reject_body(body)
    assert verdict.reason is Reason.UNDEFINED_BEHAVIOUR
    assert message in verdict.evidence.message
    assert "candidate.cpp:" in verdict.evidence.message


@pytest.mark.parametrize(
    "before",
    [
        '__attribute__((no_sanitize("address"), noinline)) static void beyond(float* y) { y[0] = 1; }',
        "[[gnu::no_sanitize_address, gnu::noinline]] static void beyond(float* y) { y[0] = 1; }",
        "#ifdef __SANITIZE_ADDRESS__\nstatic void beyond(float*) {}\n#else\nstatic void beyond(float* y) { y[0] = 1; }"
        "\n#endif",
    ],
)
def test_a_source_cannot_ask_not_to_be_checked(before: str) -> None:
    assert reject_body("beyond(y + rows * 576);", before).reason is Reason.MEMORY_ERROR


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("abort();", Reason.CRASHED),
        ("throw 1;", Reason.CRASHED),
        ("_Exit(0);", Reason.BROKE_PROTOCOL),
        ("for (;;) std::memset(new char[1 << 28], 1, 1 << 28);", Reason.OUT_OF_MEMORY),
    ],
)
def test_names_other_endings(body: str, reason: Reason) -> None:
    verdict = reject_body(body)
    assert verdict.reason is reason, verdict


def test_sizes_that_traffic_cannot_send_are_not_tried() -> None:
    """In all workloads `room` is no less than `rows`, so a kernel may rely on it."""
    task = KernelTask(
        op="add_front",
        site="tests.add_front",
        level=SiteLevel.LEAF,
        reference="def reference(x, total):\n    return x + total.sum(0)\n",
        inputs=(input_spec("x", ("rows", 8)), input_spec("total", ("room", 8))),
        outputs=(output_spec("y", ("rows", 8)),),
        axes=("rows", "room"),
        workloads=tuple(
            Workload(axes={"rows": rows, "room": room}, calls_per_hour=1.0) for rows, room in ((2, 5), (4, 7), (8, 8))
        ),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-test",
    )
    names = {workload.name for workload, _ in reduced_calls(task, np.random.default_rng(0))}
    assert names == {"room=5,rows=1", "room=5,rows=2", "room=5,rows=3", "room=3,rows=2", "room=7,rows=4"}


def test_sizes_that_the_reference_refuses_are_not_tried() -> None:
    task = make_task(
        "pairs",
        "def reference(x):\n    return x.view(-1, 2, 8).sum(1).repeat_interleave(2, 0)\n",
        [input_spec("x", ("rows", 8))],
        [output_spec("y", ("rows", 8))],
        rows=(2, 4),
        hidden_rows=(6,),
    )
    assert {workload.name for workload, _ in reduced_calls(task, np.random.default_rng(0))} == {"rows=2", "rows=4"}


def test_this_machine_has_sanitizers() -> None:
    check_sanitizers(SANDBOX)


def test_a_compiler_without_them_is_the_machines_fault() -> None:
    class WithoutRuntime(CppLanguage):
        def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
            recipe = super().build_recipe(task, candidate)
            program, *arguments = recipe.commands[0]
            # What the linker says of a library that it does not have.
            command = (program, "-L/nowhere", "-lasan-that-is-missing", *arguments)
            return BuildRecipe(files=recipe.files, commands=(command,), artifact=recipe.artifact)

    with pytest.raises(SanitizersUnavailable, match="apt-get install"):
        Sanitizers(SANDBOX, WithoutRuntime()).check(
            RMSNORM, Candidate(language=LanguageName.CPP, source=INCLUDES + RMSNORM_SOURCE)
        )
