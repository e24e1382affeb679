"""What may enter a serving process: right kernels of many kinds pass, and each thing that none needs is named."""

import platform

import pytest
from judge_tasks import BUILDER, INCLUDES, RMSNORM, SANDBOX
from test_honest_kernels import LINEAR, PACKED_LINEAR_SOURCE, RMSNORM_SOURCE

from candidates.candidate import Candidate, LanguageName
from candidates.judge.artifact import find_forbidden
from candidates.judge.instructions import find_forbidden_instructions
from candidates.languages.cpp_abi import exported_names
from candidates.task import KernelTask
from candidates.verdict import Rejected

SIGNATURE = 'extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) '


def findings(body: str, before: str = "") -> list[str]:
    return findings_in(RMSNORM, f"{before}\n{SIGNATURE}{{ {body} }}")


def findings_in(task: KernelTask, source: str, prepare: str | None = None) -> list[str]:
    candidate = Candidate(language=LanguageName.CPP, source=INCLUDES + source, prepare=prepare)
    artifact = BUILDER.build(task, candidate)
    assert isinstance(artifact, bytes), artifact
    forbidden = find_forbidden(artifact, exported_names(candidate.entry, candidate.prepare))
    return forbidden + find_forbidden_instructions(SANDBOX, artifact)


STANDARD_LIBRARY = """
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <vector>
"""
JUMP_TABLE = "switch (rows) {" + "".join(f"case {n}: y[{n * n % 7}] = x[{n}]; break;" for n in range(12)) + "}"
OPENMP = """
int most = 0;
#pragma omp parallel for reduction(max : most) schedule(dynamic)
for (int i = 0; i < int(rows); ++i) most = std::max(most, omp_get_thread_num());
#pragma omp parallel
{
    #pragma omp barrier
    #pragma omp critical
    y[0] += most;
    #pragma omp atomic
    y[1] += 1;
}
"""
AVX2 = """
#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx2,fma"))) static void wide(const float* x, float* y) {
    __m256 a = _mm256_fmadd_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), _mm256_loadu_ps(x + 16));
    _mm_prefetch(reinterpret_cast<const char*>(x + 64), _MM_HINT_T0);
    _mm256_stream_ps(y, _mm256_i32gather_ps(x, _mm256_castps_si256(a), 4));
    _mm_sfence();
    _mm_pause();
}
__attribute__((target("avx512f,avx512bw,avx512vl"))) static void wider(const float* x, float* y) {
    __m512 a = _mm512_maskz_loadu_ps(0x7fff, x);
    _mm512_mask_storeu_ps(y, 0x7f, _mm512_permutexvar_ps(_mm512_castps_si512(a), _mm512_sqrt_ps(a)));
}
#else
static void wide(const float*, float*) {}
static void wider(const float*, float*) {}
#endif
"""


@pytest.mark.parametrize(
    ("body", "before"),
    [
        pytest.param("static std::vector<float> s(rows); thread_local std::vector<float> t; t.resize(rows);"
                     "s[0] = t[0]; y[0] = s[0];", STANDARD_LIBRARY, id="scratch"),
        pytest.param("std::map<int, int> a; a[rows] = 2; std::unordered_map<int, int> b; b[rows] = 3;"
                     "auto p = std::make_shared<int>(rows); y[0] = a[2] + b[3] + *p;", STANDARD_LIBRARY,
                     id="containers"),
        pytest.param("std::sort(y, y + rows); std::stable_sort(y, y + rows);"
                     "std::function<float(float)> f = [&](float v) { return v + rows; }; y[0] = f(y[1]);",
                     STANDARD_LIBRARY, id="algorithms"),
        pytest.param('try { if (rows < 0) throw std::runtime_error("x"); } catch (const std::exception&) { y[0] = 1; }'
                     "if (rows < -1) throw 1;", STANDARD_LIBRARY, id="exceptions"),
        pytest.param("for (int i = 0; i < rows; ++i) y[i] = std::exp(x[i]) + std::tanh(x[i]) * std::pow(x[i], y[i]);",
                     "", id="mathematics"),
        pytest.param("__float128 q = x[0]; y[0] = float(q * q); __int128 i = rows; y[1] = float(i * i / (rows + 1));"
                     "_Complex float c = x[1]; c *= c; y[2] = __real__ c; volatile _Float16 h = x[3]; y[3] = h;",
                     "", id="wide and narrow numbers"),
        pytest.param("y[0] = floorl((long double)x[0]) + lrintl(x[1]);", "", id="long double"),
        pytest.param(JUMP_TABLE + "if (rows < 0) __builtin_trap(); if (rows == 99) __builtin_unreachable();", "",
                     id="jump table"),
        pytest.param(OPENMP, "#include <omp.h>", id="OpenMP"),
        pytest.param("wide(x, y); wider(x, y);", AVX2, id="intrinsics"),
    ],
)  # fmt: skip
def test_what_honest_kernels_use_may_be_shipped(body: str, before: str) -> None:
    assert findings(body, before) == []


def test_the_kernels_of_other_tests_may_be_shipped() -> None:
    assert findings_in(RMSNORM, RMSNORM_SOURCE) == []
    assert findings_in(LINEAR, PACKED_LINEAR_SOURCE, "pack") == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86_64")
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('asm volatile("syscall");', "executes syscall in kernel+0x"),
        ('asm volatile(".byte 0x2e; syscall");', "executes cs syscall in"),
        ('asm volatile("int $0x80");', "executes int $0x80 in"),
        ('asm volatile("int3");', "executes int3 in"),
        ("y[0] = __builtin_ia32_rdtsc();", "executes rdtsc in"),
        ("unsigned core; y[0] = __builtin_ia32_rdtscp(&core);", "executes rdtscp in"),
        ("__builtin_ia32_ldmxcsr(0x9fc0);", "ldmxcsr"),
        ('short control = 0x7f; asm volatile("fldcw %0" : : "m"(control));', "executes fldcw"),
        ('asm volatile("fldenv (%rsp)");', "executes fldenv"),
        ('asm volatile("xrstor (%rsp)");', "executes xrstor"),
        ('asm volatile("wrfsbase %rax");', "executes wrfsbase"),
        ('asm volatile("mov %ax, %fs");', "executes mov %eax,%fs"),
        ('asm volatile("wrpkru");', "executes wrpkru"),
        ('asm volatile("in %dx, %al");', "executes in (%dx),%al"),
        ('asm volatile("ljmp *(%rax)");', "executes ljmp"),
        ('asm volatile("std");', "executes std"),
        ('asm volatile(".byte 0x06");', "holds what is no instruction in kernel"),
        ('asm volatile("jmp 1f + 1; 1: mov $0x9090050f, %eax");', "jumps into the middle of an instruction in kernel"),
    ],
)
def test_instructions_that_no_kernel_needs_are_named(body: str, found: str) -> None:
    # In a branch that no test takes: the point is that they are found without being run.
    forbidden = findings(f"if (rows > 1000000) {{ {body} }}")
    assert any(found in each for each in forbidden), forbidden


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("__attribute__((constructor)) static void early() { volatile int x; x = 1; }", "has a constructor"),
        ("__attribute__((destructor)) static void late() { volatile int x; x = 1; }", "has a destructor"),
        ('extern "C" void _init() {}', "has code that runs when it is loaded"),
        ('extern "C" void _fini() {}', "has code that runs when the process ends"),
        (
            '__attribute__((section(".mine,\\"awx\\",@progbits#"))) unsigned char code[] = {0xc3};',
            "has memory that is both writable and executable",
        ),
    ],
)
def test_what_runs_by_itself_is_named(before: str, found: str) -> None:
    forbidden = findings("", before)
    assert any(found in each for each in forbidden), forbidden


def test_only_the_entries_are_exported() -> None:
    """What a kernel defines under the name of a library function is for itself alone."""
    memcpy = 'asm(".globl memcpy\\nmemcpy: ret");\nextern "C" void* malloc(size_t) { return nullptr; }'
    assert findings("", memcpy) == []
    artifact = BUILDER.build(RMSNORM, Candidate(language=LanguageName.CPP, source=INCLUDES + RMSNORM_SOURCE))
    assert isinstance(artifact, bytes)
    assert find_forbidden(artifact, ()) == ["exports compiler_agent_call", "exports kernel"]


def test_data_is_not_executable() -> None:
    """Bytes of a system call among constants are no code."""
    assert findings("y[0] = table[rows];", "static const unsigned char table[] = {0x0f, 0x05, 0xc3, 0x90};") == []


@pytest.mark.parametrize("artifact", [b"", b"not an object", b"\x7fELF\x02\x01" + b"\0" * 100])
def test_what_is_no_shared_object_is_told(artifact: bytes) -> None:
    with pytest.raises(ValueError, match="the artifact"):
        find_forbidden(artifact, ())


@pytest.mark.parametrize(
    "before",
    ['extern "C" void compiler_agent_call() {}', 'asm(".globl compiler_agent_call\\ncompiler_agent_call: ret");'],
)
def test_a_kernel_cannot_replace_the_adapter(before: str) -> None:
    source = f"{INCLUDES}{before}\n{SIGNATURE}{{ }}"
    assert isinstance(BUILDER.build(RMSNORM, Candidate(language=LanguageName.CPP, source=source)), Rejected)
