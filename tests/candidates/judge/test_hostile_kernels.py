"""The judge rejects wrong and hostile kernels, each for its own reason."""

import pytest
from judge_tasks import LINEAR, RMSNORM, STATE_TASK, input_spec, judge_source, make_task, output_spec
from test_honest_kernels import PACKED_LINEAR_SOURCE, RMSNORM_SOURCE

from candidates.task import ElementType, KernelTask, Workload
from candidates.verdict import Reason, Rejected

SIGNATURE = 'extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) '
# Without threads of its own: the one that a test starts is all that a task of two may have.
HONEST = RMSNORM_SOURCE.replace('extern "C" void kernel', "static void honest").replace("#pragma omp parallel for", "")
CALL = "honest(x, weight, y, rows);"


def reject(task: KernelTask, source: str, prepare: str | None = None) -> Rejected:
    verdict = judge_source(task, source, prepare=prepare)
    assert isinstance(verdict, Rejected), verdict
    return verdict


def reject_body(body: str, before: str = "", threads: int = 1) -> Rejected:
    """An rmsnorm whose kernel does `body`; it may call the right kernel by CALL."""
    return reject(RMSNORM.model_copy(update={"threads": threads}), f"{before}\n{HONEST}\n{SIGNATURE}{{ {body} }}")


def test_the_right_kernel_in_this_frame_would_pass() -> None:
    assert not isinstance(judge_source(RMSNORM, f"{HONEST}\n{SIGNATURE}{{ {CALL} }}"), Rejected)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("std::fill(y, y + rows * 576, 0.0f);", id="zeros"),
        pytest.param("std::fill(y, y + rows * 576, 1.0f);", id="ones"),
        pytest.param("std::copy(x, x + rows * 576, y);", id="input copy"),
        pytest.param(f"{CALL} y[rows * 576 - 1] = x[rows * 576 - 1];", id="one wrong element"),
        pytest.param(f"{CALL} for (int64_t i = 0; i < rows * 576; ++i) y[i] *= 1.00001f;", id="a little off"),
        pytest.param(
            f"static float first[576]; static int calls; {CALL}"
            " if (calls++ == 0) std::copy(y, y + 576, first); else std::copy(first, first + 576, y);",
            id="replay of the first call",
        ),
        pytest.param(
            f"{CALL} for (float *a = y, *b = y + rows * 576 - 1; a < b;) std::swap(*a++, *b--);", id="reversed"
        ),
        pytest.param("honest(x, x, y, rows);", id="wrong parameter"),
    ],
)
def test_rejects_wrong_values(body: str) -> None:
    verdict = reject_body(body)
    assert verdict.reason is Reason.WRONG_VALUES
    assert verdict.evidence.worst is not None
    assert verdict.evidence.share_of_elements_wrong


def test_rejects_accumulation_in_lower_precision() -> None:
    source = """
    extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
        for (int64_t row = 0; row < rows * 48; ++row) {
            const float* in = x + row / 48 * 64;
            _Float16 sum = 0;
            for (int i = 0; i < 64; ++i) sum += (_Float16)(in[i] * weight[row % 48 * 64 + i]);
            y[row] = sum;
        }
    }
    """
    assert reject(LINEAR, source).reason in (Reason.WRONG_VALUES, Reason.WRONG_NON_FINITE)


@pytest.mark.parametrize("body", ["", "honest(x, weight, y, rows - 1);", "for (int i = 0; i < 575; ++i) y[i] = 1;"])
def test_rejects_outputs_left_as_they_were(body: str) -> None:
    assert reject_body(body).reason is Reason.OUTPUT_NOT_WRITTEN


def test_rejects_unwritten_integers() -> None:
    task = make_task(
        "argmin",
        "def reference(x):\n    return x.argmin(-1)\n",
        [input_spec("x", ("rows", 16))],
        [output_spec("y", ("rows",), ElementType.INT64)],
    )
    source = 'extern "C" void kernel(const float* x, int64_t* y, int64_t rows) {}'
    assert reject(task, source).reason is Reason.OUTPUT_NOT_WRITTEN


def test_rejects_nan_where_there_should_be_a_number() -> None:
    assert reject_body(f'{CALL} y[3] = std::nanf("");').reason is Reason.WRONG_NON_FINITE


def test_rejects_a_state_that_was_not_updated() -> None:
    source = """
    extern "C" void kernel(const float* x, float* total, float* peak, int64_t rows) {
        for (int64_t row = 0; row < rows; ++row) {
            peak[row] = 0;
            for (int64_t i = row * 64; i < row * 64 + 64; ++i)
                peak[row] = std::max(peak[row], std::fabs(total[i] + x[i]));
        }
    }
    """
    verdict = reject(STATE_TASK, source)
    assert verdict.reason is Reason.WRONG_VALUES
    assert verdict.evidence.worst is not None
    assert verdict.evidence.worst.output == "total"


@pytest.mark.parametrize("where", ["y[rows * 576]", "y[-1]", "y[rows * 576 + 9000]"])
def test_rejects_writes_out_of_bounds(where: str) -> None:
    assert reject_body(f"{CALL} {where} = 0;").reason is Reason.WROTE_OUT_OF_BOUNDS


def test_rejects_reads_beyond_an_input() -> None:
    assert reject_body(f"{CALL} volatile float beyond = x[rows * 576];").reason is Reason.CRASHED


def test_rejects_writing_its_inputs() -> None:
    assert reject_body(f"{CALL} const_cast<float*>(x)[0] = 0;").reason is Reason.CRASHED


def test_inputs_cannot_be_made_writable() -> None:
    unlock = "mprotect((void*)((uintptr_t)x & ~4095ul), 4096, PROT_READ | PROT_WRITE); const_cast<float*>(x)[0] = 0;"
    assert reject_body(f"{CALL} {unlock}", "#include <sys/mman.h>").reason is Reason.CRASHED


def test_rejects_results_that_differ_between_equal_calls() -> None:
    body = f"static uint64_t calls; {CALL} y[7] += calls++ * 1e-9f * y[7] * 50; y[8] = std::nextafter(y[8], calls % 3);"
    assert reject_body(body).reason is Reason.NOT_DETERMINISTIC


def test_rejects_a_thread_that_writes_on_after_the_return() -> None:
    before = "#include <unistd.h>\n#include <thread>\nstatic float* volatile last;"
    body = f"""{CALL} last = y; static bool is_started;
        if (!is_started) std::thread([] {{ for (;;) {{ usleep(100); last[0] = 0; }} }}).detach();
        is_started = true;"""
    reasons = {Reason.OUTPUT_CHANGED_AFTER_RETURN, Reason.NOT_DETERMINISTIC, Reason.WRONG_VALUES}
    assert reject_body(body, before, threads=2).reason in reasons


def test_rejects_a_late_correction() -> None:
    before = "#include <unistd.h>\n#include <thread>"
    body = f"""{CALL} static bool is_started;
        if (!is_started) std::thread([y] {{ usleep(2000); y[0] += 1; }}).detach();
        is_started = true;"""
    # On a busy machine the thread may be early, and the result then reads as wrong.
    reasons = (reject_body(body, before, threads=2).reason for _ in range(5))
    assert any(reason is Reason.OUTPUT_CHANGED_AFTER_RETURN for reason in reasons)


def test_rejects_more_threads_than_a_few() -> None:
    body = f"{CALL} std::thread([] {{ for (;;) {{}} }}).detach();"
    assert reject_body(body, "#include <thread>", threads=2).reason is Reason.CRASHED


@pytest.mark.parametrize(
    ("include", "body"),
    [
        ("unistd.h", "fork();"),
        ("unistd.h", 'execl("/bin/true", "true", nullptr);'),
        ("sys/socket.h", "socket(AF_UNIX, SOCK_STREAM, 0);"),
        ("fcntl.h", 'open("/scratch/notes", O_CREAT | O_WRONLY, 0644);'),
        ("sched.h", "cpu_set_t all; CPU_ZERO(&all); CPU_SET(0, &all); sched_setaffinity(0, sizeof all, &all);"),
        ("sys/resource.h", "setpriority(PRIO_PROCESS, 0, -5);"),
        ("sys/ptrace.h", "ptrace(PTRACE_TRACEME, 0, 0, 0);"),
        ("signal.h", "kill(1, SIGSTOP);"),
        ("thread", "std::thread([] {}).join();"),
    ],
)
def test_rejects_system_calls_that_no_kernel_needs(include: str, body: str) -> None:
    assert reject_body(f"{CALL} {body}", f"#include <{include}>").reason is Reason.FORBIDDEN_SYSTEM_CALL


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("for (volatile int i = 0;; i = i + 1) {}", Reason.TIMED_OUT, id="endless loop"),
        pytest.param("*(volatile int*)8 = 0;", Reason.CRASHED, id="null pointer"),
        pytest.param("abort();", Reason.CRASHED, id="abort"),
        pytest.param("_Exit(0);", Reason.BROKE_PROTOCOL, id="exit"),
        pytest.param("_Exit(70);", Reason.BROKE_PROTOCOL, id="exit like a broken runner"),
        pytest.param("for (;;) std::memset(new char[1 << 28], 1, 1 << 20);", Reason.OUT_OF_MEMORY, id="memory"),
        pytest.param(f"{CALL} char forged[16] = {{}}; if (write(1, forged, 16)) {{}}", Reason.BROKE_PROTOCOL,
                     id="forged reply"),
        pytest.param("char stolen[64]; if (read(0, stolen, 64)) {}", Reason.TIMED_OUT, id="steals the next request"),
    ],
)  # fmt: skip
def test_names_the_ending(body: str, reason: Reason) -> None:
    assert reject_body(body, "#include <unistd.h>").reason is reason


@pytest.mark.parametrize(
    "before",
    [
        "extern void missing(); void* volatile needs = (void*)&missing;",
        "__attribute__((constructor)) void early() { _Exit(0); }",
    ],
)
def test_rejects_what_cannot_be_loaded(before: str) -> None:
    verdict = reject_body(CALL, before)
    assert verdict.reason is Reason.LOAD_FAILED
    assert verdict.workload is None


@pytest.mark.parametrize(
    ("before", "body", "found"),
    [
        ("#include <cstdio>", 'if (rows > 1000000) std::puts("x");', "imports puts"),
        ("#include <unistd.h>", 'if (rows > 1000000) execl("/bin/sh", "sh", nullptr);', "imports execl"),
        ("#include <omp.h>", "if (rows > 1000000) omp_set_num_threads(8);", "imports omp_set_num_threads"),
        ("static float table[2]; __attribute__((constructor)) void early() { table[1] = 1; }", "", "constructor"),
        ("struct Log { Log() { data = new char[8]; } char* data; } log_;", "", "constructor"),
        (
            'static float one() { return 1; } extern "C" void* pick() { return reinterpret_cast<void*>(one); }'
            ' static float chosen() __attribute__((ifunc("pick")));',
            "y[0] *= chosen();",
            "indirect function",
        ),
    ],
)
def test_rejects_what_must_not_enter_a_serving_process(before: str, body: str, found: str) -> None:
    verdict = reject_body(f"{CALL} {body}", before)
    assert verdict.reason is Reason.FORBIDDEN_SYMBOL, verdict
    assert found in verdict.evidence.message


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("#include <cfenv>", f"{CALL} std::fesetround(FE_TOWARDZERO);"),
        ("#include <cfenv>", f"{CALL} std::feholdexcept(new std::fenv_t); feenableexcept(FE_DIVBYZERO);"),
        ("#include <xmmintrin.h>", f"{CALL} _mm_setcsr(_mm_getcsr() | 0x8040);"),
        ("", f'{CALL} unsigned short control = 0x27f; asm volatile("fldcw %0" : : "m"(control));'),
    ],
)
def test_rejects_a_float_state_left_changed(before: str, body: str) -> None:
    verdict = reject_body(body, before)
    assert verdict.reason is Reason.CHANGED_FLOAT_STATE
    assert "flush-to-zero" in verdict.evidence.message


def test_rejects_a_float_state_changed_by_loading() -> None:
    before = "#include <xmmintrin.h>\n__attribute__((constructor)) static void early() { _mm_setcsr(0x9fc0); }"
    assert reject_body(CALL, before).reason is Reason.CHANGED_FLOAT_STATE


def test_sticky_exception_flags_are_no_changed_state() -> None:
    source = f"{HONEST}\n{SIGNATURE}{{ volatile float tiny = 1e-38f; tiny = tiny * tiny; tiny = 1 / tiny; {CALL} }}"
    assert not isinstance(judge_source(RMSNORM, source), Rejected)


def test_rejects_a_prepare_that_crashes() -> None:
    source = PACKED_LINEAR_SOURCE.replace(
        "float* transposed = static_cast<float*>(prepared);", "float* transposed = 0;"
    )
    assert reject(LINEAR, source, prepare="pack").reason is Reason.PREPARE_FAILED


def test_says_nothing_of_a_hidden_shape() -> None:
    task = make_task(
        "negate",
        "def reference(x):\n    return -x\n",
        [input_spec("x", ("rows", 8))],
        [output_spec("y", ("rows", 8))],
        rows=(2, 4),
        hidden_rows=(37,),
    )
    source = """
    extern "C" void kernel(const float* x, float* y, int64_t rows) {
        for (int64_t i = 0; i < rows * 8; ++i) y[i] = -x[i] + (rows > 4);
    }
    """
    verdict = reject(task, source)
    assert verdict.workload == "hidden"
    assert "37" not in verdict.evidence.model_dump_json()
    assert verdict.evidence.worst is None


def test_large_shapes_are_judged_in_bounded_memory() -> None:
    large = Workload(axes={"rows": 12_000}, calls_per_hour=1.0)
    task = RMSNORM.model_copy(update={"workloads": (large,)})
    assert reject(task, f"{HONEST}\n{SIGNATURE}{{ {CALL} y[rows * 576 - 1] += 1; }}").reason is Reason.WRONG_VALUES
