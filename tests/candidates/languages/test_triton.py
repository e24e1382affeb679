"""TritonLanguage: what a candidate file may say, and what is compiled for GPUs that are not there."""

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_tasks import LINEAR, RMSNORM

from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.compiler_reports import CompilerReports
from candidates.language import SourceRefused
from candidates.languages.triton import ARCHITECTURES, TritonLanguage, triton_environment
from candidates.languages.triton_artifact import TritonArtifact, read_artifact
from candidates.languages.triton_brief import entry_signature, prepare_signature
from candidates.task import KernelTask
from candidates.verdict import Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.sandbox import Limits

LANGUAGE = TritonLanguage()
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"
LINEAR_SOURCE = f"""\
# entry: linear
# prepare: pack
# launch: BM=16 BN=16 num_warps=2
{IMPORTS}
EPS = tl.constexpr(0.0)


@triton.jit
def _guard(rows, columns, M, N):
    return (rows[:, None] < M) & (columns[None, :] < N)


@triton.heuristics({{"IS_EVEN": lambda args: args["K"] % args["BK"] == 0}})
@triton.jit
def _linear(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, IS_EVEN: tl.constexpr):
    tl.static_assert(BK >= 16, "at least 16")
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + kk[None, :], mask=_guard(m, kk, M, K), other=EPS)
        b = tl.load(w + kk[:, None] * N + n[None, :], mask=_guard(kk, n, K, N), other=EPS)
        acc = tl.dot(a, b, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=_guard(m, n, M, N))


# So many values for one warp find no room in registers.
@triton.jit
def _spill(y, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(y + at, mask=at < size, other=0.0)
    values = values - tl.max(values, 0)
    values = tl.exp(values) / tl.sum(tl.exp(values), 0)
    tl.store(y + at, values, mask=at < size)


@triton.jit
def _copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


def linear(x, weight, y, prepared, rows):
    K, N = prepared.shape
    assert x.shape[1] == K, f"{{x.shape}} by {{prepared.shape}}"

    def grid(meta):
        return triton.cdiv(rows, meta["BM"]), triton.cdiv(N, meta["BN"])

    _linear[grid](x, prepared, y, rows, N, K, BM=LAUNCH_BM, BN=LAUNCH_BN, BK=32, num_warps=LAUNCH_num_warps)
    scratch = torch.empty((8192,), device=x.device, dtype=y.dtype)
    _spill[(1,)](scratch, scratch.numel(), BLOCK=8192, num_warps=1)
    _copy[(8,)](scratch, scratch, BLOCK=1024, num_warps=8)


def pack(weight):
    return weight.t().contiguous()
"""
SIMPLE = f"""\
{IMPORTS}
@triton.jit
def _copy(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size), mask=at < size)

def kernel(x, weight, y, rows):
    _copy[(triton.cdiv(y.numel(), 256),)](x, y, y.numel(), BLOCK=256)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """LINEAR_SOURCE, and the cache that later tests find it in."""
    made = _builder(tmp_path_factory.getbasetemp() / "artifacts").build(LINEAR, _parse(LINEAR_SOURCE))
    assert isinstance(made, bytes), made
    return made


@pytest.fixture(scope="module")
def artifact(built: bytes) -> TritonArtifact:
    return read_artifact(built)


@pytest.fixture(scope="module")
def report(built: bytes) -> CompilerReport:
    return LANGUAGE.read_report(_parse(LINEAR_SOURCE), built)


def test_the_signature_follows_the_task() -> None:
    assert entry_signature(LINEAR, "kernel", has_prepared=True) == "def kernel(x, weight, y, prepared, rows):"
    assert prepare_signature(LINEAR, "pack") == "def pack(weight):"


def test_the_brief_shows_public_shapes_only() -> None:
    brief = LANGUAGE.brief(RMSNORM)
    assert "    x,  # [rows, 576] float32, row-major, activation" in brief
    assert "rows=33" in brief
    assert "rows=5" not in brief
    assert "Other shapes of the same kind are judged too." in brief
    assert "sm_80, sm_90, sm_100, gfx942" in brief
    assert "sm_90" not in LANGUAGE.brief(RMSNORM.model_copy(update={"architectures": ("sm_80",)}))


def test_what_the_brief_says_compiles() -> None:
    brief = LANGUAGE.brief(RMSNORM)
    start = brief.index("# launch:")
    built = _build(RMSNORM, brief[start : brief.index("\n\nRules")])
    assert isinstance(built, bytes), built


def test_every_launch_is_compiled_for_every_architecture(report: CompilerReport) -> None:
    compiled = {(kernel.kernel, kernel.architecture) for kernel in report.kernels}
    assert compiled == {(name, each) for name in ("_linear", "_spill", "_copy") for each in ARCHITECTURES}
    assert all(kernel.registers > 0 for kernel in report.kernels)
    assert {kernel.line for kernel in report.kernels if kernel.kernel == "_linear"} == {18}


def test_launches_are_specialised_as_triton_does(artifact: TritonArtifact) -> None:
    kernels = json.loads(artifact.report)["kernels"]
    linear = [each["workloads"] for each in kernels if (each["kernel"], each["architecture"]) == ("_linear", "sm_90")]
    assert sorted(linear) == [["rows=1"], ["rows=8", "rows=33"]]


def test_spills_are_told(report: CompilerReport) -> None:
    spills = {(kernel.kernel, kernel.architecture): kernel.spill_store_bytes for kernel in report.kernels}
    for architecture in ("sm_80", "sm_90", "sm_100"):
        assert spills["_spill", architecture] > 0
        assert spills["_copy", architecture] == 0


def test_instructions_are_told_by_kind(report: CompilerReport) -> None:
    by_kernel = {(kernel.kernel, kernel.architecture): kernel.instructions for kernel in report.kernels}
    for architecture in ARCHITECTURES:
        assert by_kernel["_linear", architecture]["matrix multiply"] > 0
        assert by_kernel["_copy", architecture]["128-bit global load"] == 1 if architecture != "gfx942" else True


def test_the_report_is_what_an_author_reads(report: CompilerReport) -> None:
    text = report.as_text()
    assert re.search(r"_linear \(line 18\) on sm_90: \d+ registers, \d+ bytes shared, ", text)
    assert "64 threads: " in text
    assert "1 x 3 blocks of 2 warps at rows=1" in text
    assert "SPILLS" in text


def test_the_artifact_holds_source_and_binaries(artifact: TritonArtifact) -> None:
    assert artifact.source.decode() == LINEAR_SOURCE
    endings = {name.rpartition(".")[2] for name in artifact.cache}
    assert {"cubin", "hsaco", "json"} <= endings
    assert not any(b"/scratch/" in content for name, content in artifact.cache.items() if name.endswith(".ptx"))


def test_builds_are_kept_by_content(built: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "artifacts"
    candidate = _parse(LINEAR_SOURCE)
    builder = Builder(NoSandbox(), {LanguageName.TRITON: LANGUAGE}, slots=1, cache_folder=folder)
    assert builder.build(LINEAR, candidate) == built


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK - 1)", ["kernel.py:7: error: arange's range must be a power of 2"]),
        ("BLOCK=256)", "BLOCK=256, num_warps=3)", ["error: _copy: AssertionError: num_warps must be a power of 2"]),
        ("BLOCK=256)", "BLOCK=256, num_warps=32)", ["for gfx942: 2048 threads"]),
        ("y.numel(), BLOCK", "rows, y, BLOCK", ["kernel.py:11: error: ", "_copy"]),
        ("(triton.cdiv(y.numel(), 256),)", "(0.5,)", ["kernel.py:11: error: the grid (0.5,) of _copy"]),
        ("    _copy[", "    rows, columns = x.shape[0]\n    _copy[", ["kernel.py:11: error: TypeError"]),
        ("    _copy[", "    if rows < 0:\n        _copy[", ["kernel launched no @triton.jit function"]),
    ],
    ids=["kernel", "option", "threads", "arguments", "grid", "host", "nothing"],
)
def test_errors_come_in_tritons_words_with_the_line(old: str, new: str, messages: list[str]) -> None:
    task = RMSNORM.model_copy(update={"architectures": ("sm_80", "gfx942")})
    assert SIMPLE.count(old) >= 1
    built = _build(task, SIMPLE.replace(old, new))
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED
    for message in messages:
        assert message in built.evidence.message + built.evidence.log_tail
    assert "site-packages" not in built.evidence.log_tail


def test_what_takes_too_long_is_ended_with_the_line() -> None:
    source = SIMPLE.replace("    _copy[", "    while rows:\n        rows += 1\n    _copy[")
    built = _build(RMSNORM, source, TritonLanguage(compile_limit_s=2.0))
    assert isinstance(built, Rejected)
    assert re.search(r"kernel.py:1[12]: error: not compiled after 2 s", built.evidence.message)


def test_a_report_of_what_does_not_build_is_its_message() -> None:
    reports = CompilerReports(_builder(), {LanguageName.TRITON: LANGUAGE})
    made = reports.report(RMSNORM, _parse(SIMPLE.replace("256)", "257)")))
    assert "must be a power of 2" in made.failure
    assert "/" not in made.failure.replace("x /", "")


def test_forbidden_python_never_runs() -> None:
    built = _build(RMSNORM, SIMPLE + "import os\n")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.FORBIDDEN_SYMBOL
    assert "line 12: import of os" in built.evidence.message


def test_a_target_without_known_limits_is_refused() -> None:
    with pytest.raises(SourceRefused, match="gfx803"):
        LANGUAGE.build_recipe(RMSNORM.model_copy(update={"architectures": ("gfx803",)}), _parse(SIMPLE))


def test_hidden_workloads_stay_outside() -> None:
    recipe = LANGUAGE.build_recipe(RMSNORM, _parse(SIMPLE))
    assert b"rows=33" in recipe.files["request.json"]
    assert b"rows=5" not in recipe.files["request.json"]
    assert recipe.toolchain is not None
    assert recipe.toolchain.startswith("triton ")


@pytest.mark.parametrize(
    "told",
    [
        {"build_flags": ("-O2",)},
        {"launch_parameters": {f"a{number}": 1 for number in range(65)}},
        {"launch_parameters": {"tile": "a" * 140_000}},
        {"launch_parameters": {"a-b": 1}},
        {"entry": "k" * 70_000},
        {"entry": "ker nel"},
    ],
    ids=["flags", "parameters", "value", "name", "long", "entry"],
)
def test_refuses_options_that_no_source_reads(told: dict[str, Any]) -> None:
    with pytest.raises(SourceRefused) as refused:
        LANGUAGE.build_recipe(RMSNORM, _parse(SIMPLE).model_copy(update=told))
    assert refused.value.reason is Reason.FORBIDDEN_BUILD_FLAG
    assert len(str(refused.value)) < 300


def test_parses_a_header(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("# A fast kernel\n# entry: attend\n# prepare: pack\n# launch: TILE=8 rate=0.5 mode=WIDE\n\nx = 1\n")
    candidate = LANGUAGE.parse(file)
    assert (candidate.entry, candidate.prepare) == ("attend", "pack")
    assert candidate.launch_parameters == {"TILE": 8, "rate": 0.5, "mode": "WIDE"}
    assert candidate.source == file.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# entry: a\n# entry: b\n", ":2: a second `entry:`"),
        ("# launch: tile\n", ":1: launch parameters"),
        ("# prepare:\n", ":1: `prepare:` says nothing"),
        ("# flags: -O3\nx = 1\n", ":1: triton takes no `flags:`"),
        ("\n \n", "empty"),
    ],
)
def test_says_where_a_header_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        LANGUAGE.parse(file)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_parse_returns_or_raises_value_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.py"
    file.write_text(text, encoding="utf-8", newline="")
    with contextlib.suppress(ValueError):
        assert LANGUAGE.parse(file).language is LanguageName.TRITON


def test_names_the_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"kernel\.py: not UTF-8 text"):
        LANGUAGE.parse(path)


def test_the_environment_holds_torch_and_triton() -> None:
    assert triton_environment().argv[-2:] == ("-I", "-B")


class NoSandbox(BubblewrapSandbox):
    def open(self, limits: Limits, read_only: Mapping[Path, str] | None = None) -> NoReturn:
        raise AssertionError("a sandbox was opened")


def _parse(source: str) -> Candidate:
    return LANGUAGE.parse_source(source, "kernel.py")


def _builder(cache_folder: Path | None = None, language: TritonLanguage = LANGUAGE) -> Builder:
    return Builder(BubblewrapSandbox(), {LanguageName.TRITON: language}, slots=1, cache_folder=cache_folder)


def _build(task: KernelTask, source: str, language: TritonLanguage = LANGUAGE) -> bytes | Rejected:
    return _builder(language=language).build(task, _parse(source))
