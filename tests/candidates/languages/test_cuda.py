"""CudaLanguage: honest kernels of six styles compile, what is refused and in which words, what the report shows."""

from pathlib import Path

import pytest

from candidates.builder import Builder, CompilerUnavailable
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.compiler_reports import CompilerReports
from candidates.judge.artifact import CUDA_RULES, find_forbidden
from candidates.judge.judge import Judge
from candidates.language import SourceRefused
from candidates.languages.cpp_abi import CUDA, call_signature, exported_names, prepare_signatures
from candidates.languages.cuda import CudaLanguage
from candidates.languages.cuda_report import read_report
from candidates.languages.cuda_toolkit import find_toolkit
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import NeedsDevice, Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox

LANGUAGE = CudaLanguage()
SOURCES = Path(__file__).parent / "cuda_kernels"
STYLES = ("elementwise", "reduction", "shared_tiles", "vector_loads", "tensor_cores", "templates")
TASK = KernelTask(
    op="scale_rows",
    site="tests.scale_rows",
    level=SiteLevel.LEAF,
    reference="def reference(x, w):\n    return x * w.float()\n",
    inputs=(
        InputSpec(
            name="x",
            element_type=ElementType.FLOAT32,
            shape=("rows", 1024),
            dim_order=(0, 1),
            role=InputRole.ACTIVATION,
        ),
        InputSpec(name="w", element_type=ElementType.BFLOAT16, shape=(1024,), dim_order=(0,), role=InputRole.PARAMETER),
    ),
    outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 1024), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 8}, calls_per_hour=1.0),),
    error_bound=ErrorBound(scaled_error=1e-6),
    device_id="cuda-test",
    architectures=("sm_90",),
)
SIGNATURE = call_signature(TASK, "kernel", has_prepared=False, abi=CUDA)
EMPTY = "__global__ void nothing() {}\n"
_DECLARED = '#include <cstdio>\n#include <dlfcn.h>\nextern "C" int cublasCreate_v2(void*);\n'
_LAUNCH = "nothing<<<1, 1, 0, stream>>>();"


@pytest.fixture(scope="module")
def builder() -> Builder:
    try:
        find_toolkit()
    except CompilerUnavailable:
        pytest.skip("no CUDA toolkit")
    return Builder(BubblewrapSandbox(), {LanguageName.CUDA: LANGUAGE}, slots=1)


def test_the_signature_follows_the_task() -> None:
    assert call_signature(TASK, "kernel", has_prepared=True, abi=CUDA) == (
        'extern "C" void kernel(const float* x, const __nv_bfloat16* w, float* y, const void* prepared, int64_t rows, '
        "cudaStream_t stream)"
    )
    assert prepare_signatures(TASK, "pack", CUDA) == (
        'extern "C" int64_t pack_bytes()',
        'extern "C" void pack(const __nv_bfloat16* w, void* prepared, cudaStream_t stream)',
    )


@pytest.mark.parametrize("style", STYLES)
def test_honest_kernels_compile_and_may_be_shipped(builder: Builder, style: str) -> None:
    candidate = LANGUAGE.parse(SOURCES / f"{style}.cu")
    built = builder.build(TASK, candidate)
    assert isinstance(built, bytes), built
    assert b"\0compiler_agent_call\0" in built
    assert find_forbidden(built, exported_names(candidate.entry, candidate.prepare), CUDA_RULES) == []


def test_one_artifact_holds_every_architecture(builder: Builder) -> None:
    task = TASK.model_copy(update={"architectures": ()})
    report = _report(builder, task, (SOURCES / "reduction.cu").read_text())
    assert [kernel.architecture for kernel in report.kernels] == ["sm_80", "sm_90", "sm_100"]
    kernel = report.kernels[1]
    assert kernel.kernel == "row_mean(float const*, float*)"
    assert kernel.shared_bytes == 128
    assert kernel.spill_store_bytes == 0
    assert [bound.threads_a_block for bound in kernel.occupancy] == [128, 256, 512, 1024]
    assert "128 bytes shared" in report.as_text()


def test_the_report_shows_spills(builder: Builder) -> None:
    report = _report(builder, TASK, (SOURCES / "spills.cu").read_text())
    (kernel,) = report.kernels
    assert kernel.registers <= 24
    assert kernel.spill_store_bytes > 0
    assert "SPILLS" in report.as_text()


def test_what_the_brief_says_compiles(builder: Builder) -> None:
    brief = LANGUAGE.brief(TASK)
    start = brief.index('extern "C" void kernel(')
    signature = brief[start : brief.index("\n\n", start)]
    assert isinstance(_build(builder, f"{signature} {{}}\n"), bytes)
    assert "sm_90a" in brief


def test_another_signature_does_not_compile(builder: Builder) -> None:
    built = _build(builder, EMPTY + SIGNATURE.replace("const float* x", "float* x") + " {}\n")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED
    assert 'overloaded function "kernel" has "C" linkage' in built.evidence.message


def test_a_device_function_is_no_entry(builder: Builder) -> None:
    built = _build(builder, SIGNATURE.replace("void", "__global__ void", 1) + " {}\n")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED


def test_errors_come_in_the_compilers_words(builder: Builder) -> None:
    built = _build(builder, f"__global__ void wrong(float* y) {{ y[0] = undefined_name; }}\n{SIGNATURE} {{}}\n")
    assert isinstance(built, Rejected)
    assert built.evidence.message == 'candidate.cu(1): error: identifier "undefined_name" is undefined'
    report = _report(builder, TASK, f"{SIGNATURE} {{ missing(); }}\n")
    assert 'identifier "missing" is undefined' in report.failure


def test_macros_of_the_source_do_not_reach_the_adapter(builder: Builder) -> None:
    macros = "#define tensors nothing\n#define sizes nothing\n#define compiler_agent_call mine\n#pragma pack(1)\n"
    built = _build(builder, f"{EMPTY}{SIGNATURE} {{ {_LAUNCH} }}\n{macros}")
    assert isinstance(built, bytes), built
    assert b"\0compiler_agent_call\0" in built


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("void* memory; cudaMalloc(&memory, 64);", "imports cudaMalloc"),
        ("cudaMemcpyAsync(y, x, 64, cudaMemcpyDefault, stream);", "imports cudaMemcpyAsync"),
        ("cudaStream_t other; cudaStreamCreate(&other);", "imports cudaStreamCreate"),
        ("cudaStreamSynchronize(stream);", "imports cudaStreamSynchronize"),
        ("cudaEvent_t event; cudaEventCreate(&event);", "imports cudaEventCreate"),
        ("cudaGraph_t graph; cudaGraphCreate(&graph, 0);", "imports cudaGraphCreate"),
        ('void* found; cudaGetDriverEntryPoint("cuMemAlloc", &found, 0);', "imports cudaGetDriverEntryPoint"),
        ("cublasCreate_v2(nullptr);", "imports cublasCreate_v2"),
        ('dlopen("libcublas.so", 2);', "imports dlopen"),
        ('fopen("/tmp/x", "r");', "imports fopen"),
    ],
)
def test_host_code_that_does_more_than_launch_may_not_be_shipped(builder: Builder, body: str, found: str) -> None:
    built = _build(builder, f"{_DECLARED}{EMPTY}{SIGNATURE} {{ {body} {_LAUNCH} }}\n")
    assert isinstance(built, bytes), built
    assert found in "; ".join(find_forbidden(built, exported_names("kernel", None), CUDA_RULES))


def test_the_judge_asks_for_a_device_and_refuses_before_it(builder: Builder) -> None:
    judge = Judge(BubblewrapSandbox())
    honest = _candidate(f"{EMPTY}{SIGNATURE} {{ {_LAUNCH} }}\n")
    built = builder.build(TASK, honest)
    assert isinstance(built, bytes)
    assert isinstance(judge.judge(TASK, honest, built), NeedsDevice)
    greedy = _candidate(f"{EMPTY}{SIGNATURE} {{ void* memory; cudaMalloc(&memory, 64); {_LAUNCH} }}\n")
    built = builder.build(TASK, greedy)
    assert isinstance(built, bytes)
    verdict = judge.judge(TASK, greedy, built)
    assert isinstance(verdict, Rejected)
    assert verdict.reason is Reason.FORBIDDEN_SYMBOL
    assert "imports cudaMalloc" in verdict.evidence.message


@pytest.mark.parametrize(
    "extra",
    [
        "__attribute__((constructor)) static void at_load() { seen = 1; }",
        "struct Counter { int* at; Counter() : at(new int) {} }; Counter counter;",
        'int made = atoi("7");',
    ],
)
def test_nothing_of_the_candidates_runs_at_load(builder: Builder, extra: str) -> None:
    built = _build(builder, f"{EMPTY}int seen;\n{extra}\n{SIGNATURE} {{ {_LAUNCH} }}\n")
    assert isinstance(built, bytes), built
    assert "has a constructor" in "; ".join(find_forbidden(built, exported_names("kernel", None), CUDA_RULES))


@pytest.mark.parametrize(
    "flag",
    [
        "-ccbin=/scratch/x",
        "-Xcompiler=-O0",
        "-lcublas",
        "-rdc=true",
        "-o/scratch/x",
        "--run",
        "@/scratch/flags",
        "-O3 -g",
    ],
)
def test_refuses_flags_that_reach_beyond_the_kernel(flag: str) -> None:
    with pytest.raises(SourceRefused, match="not allowed"):
        LANGUAGE.build_recipe(TASK, _candidate("int x;", build_flags=(flag,)))


def test_refuses_a_task_for_other_vendors_alone() -> None:
    task = TASK.model_copy(update={"architectures": ("gfx942",)})
    with pytest.raises(SourceRefused, match="gfx942"):
        LANGUAGE.build_recipe(task, _candidate("int x;"))


def test_leaves_out_other_vendors_with_a_note(builder: Builder) -> None:
    task = TASK.model_copy(update={"architectures": ("sm_80", "gfx942")})
    report = _report(builder, task, f"{EMPTY}{SIGNATURE} {{ {_LAUNCH} }}\n")
    assert [kernel.architecture for kernel in report.kernels] == ["sm_80"]
    assert "gfx942 is not NVIDIA's: CUDA does not compile for it" in report.notes


def test_the_recipe_names_its_compilers(builder: Builder) -> None:
    recipe = LANGUAGE.build_recipe(TASK, _candidate("int x;"))
    assert recipe.toolchain is not None
    assert recipe.toolchain.startswith("nvcc ")
    assert "g++" in recipe.toolchain
    assert list(recipe.read_only.values()) == ["/cuda"]


def test_a_header_is_read_as_in_cpp() -> None:
    candidate = LANGUAGE.parse(SOURCES / "vector_loads.cu")
    assert (candidate.language, candidate.entry, candidate.prepare) == (LanguageName.CUDA, "scale_rows", "pack")


@pytest.mark.parametrize(
    "report",
    [
        "",
        "left out:\nptxas info    : Used 12 registers\n",
        "left out:\nptxas info    : Compiling entry function 'a' for 'sm_90a'\nptxas info    : Used 9 registers\n"
        * 9000,
        "left out:\nptxas info : Compiling entry function ''' for 'sm_999'\nptxas info : Used 9999999999 registers",
        "left out: gfx942\n"
        + "    99999999999999999999 bytes stack frame, 1 bytes spill stores, 1 bytes spill loads\n",
        "left out:\n" + "9" * 5000 + " bytes stack frame, 1 bytes spill stores, 1 bytes spill loads\n",
    ],
)
def test_a_report_never_raises(report: str) -> None:
    assert len(read_report(report).as_text()) <= 6000
    assert "Vectoriser" not in read_report(report).as_text()


def _candidate(source: str, **fields: object) -> Candidate:
    return Candidate.model_validate({"language": LanguageName.CUDA, "source": source, **fields})


def _build(builder: Builder, source: str) -> bytes | Rejected:
    return builder.build(TASK, _candidate(source))


def _report(builder: Builder, task: KernelTask, source: str) -> CompilerReport:
    candidate = LANGUAGE.parse_source(source, "kernel.cu")
    return CompilerReports(builder, {LanguageName.CUDA: LANGUAGE}).report(task, candidate)
