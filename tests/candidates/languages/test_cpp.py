"""CppLanguage: what a candidate file may say, what is refused, and that the brief compiles."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.language import SourceRefused
from candidates.languages.cpp import CppLanguage
from candidates.languages.cpp_abi import call_signature, prepare_signatures
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)
from candidates.verdict import Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox

LANGUAGE = CppLanguage()
TASK = KernelTask(
    op="attend",
    site="tests.attend",
    level=SiteLevel.LEAF,
    reference="def reference(q, cache, weight):\n    return q\n",
    inputs=(
        InputSpec(
            name="q",
            element_type=ElementType.BFLOAT16,
            shape=("batch", 8, "tokens", 64),
            dim_order=(0, 2, 1, 3),
            role=InputRole.ACTIVATION,
        ),
        InputSpec(
            name="cache", element_type=ElementType.FLOAT32, shape=(128, 64), dim_order=(0, 1), role=InputRole.STATE
        ),
        InputSpec(
            name="weight", element_type=ElementType.FLOAT32, shape=(64,), dim_order=(0,), role=InputRole.PARAMETER
        ),
    ),
    outputs=(TensorSpec(name="mask", element_type=ElementType.BOOL, shape=("batch",), dim_order=(0,)),),
    axes=("batch", "tokens"),
    workloads=(
        Workload(axes={"batch": 2, "tokens": 3}, calls_per_hour=7.0),
        Workload(axes={"batch": 5, "tokens": 6}, calls_per_hour=1.0, is_hidden=True),
    ),
    error_bound=ErrorBound(scaled_error=1e-6),
    device_id="cpu-test",
    threads=2,
)


def test_the_signature_follows_the_task() -> None:
    assert call_signature(TASK, "kernel", has_prepared=True) == (
        'extern "C" void kernel(const uint16_t* q, float* cache, const float* weight, uint8_t* mask, '
        "const void* prepared, int64_t batch, int64_t tokens)"
    )
    assert prepare_signatures(TASK, "pack") == (
        'extern "C" int64_t pack_bytes()',
        'extern "C" void pack(const float* weight, void* prepared)',
    )


def test_the_brief_shows_public_shapes_only() -> None:
    brief = LANGUAGE.brief(TASK)
    assert "batch=2,tokens=3" in brief
    assert "batch=5" not in brief
    assert "dims in memory (0, 2, 1, 3)" in brief
    assert "omp_get_max_threads() is 2" in brief
    assert "Other shapes of the same kind are judged too." in brief


def test_the_brief_says_where_no_other_shapes_are_judged() -> None:
    brief = LANGUAGE.brief(TASK.model_copy(update={"workloads": TASK.public_workloads}))
    assert "No others are judged." in brief
    assert "Other shapes" not in brief


def test_what_the_brief_says_compiles() -> None:
    brief = LANGUAGE.brief(TASK)
    start = brief.index('extern "C" void kernel(')
    signature = brief[start : brief.index("\n\n", start)]
    built = _build(f"#include <cstdint>\n{signature} {{}}\n")
    assert isinstance(built, bytes), built


def test_another_signature_does_not_compile() -> None:
    source = call_signature(TASK, "kernel", has_prepared=False).replace("const uint16_t* q", "const float* q")
    built = _build(f"#include <cstdint>\n{source} {{}}\n")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED
    assert "conflicting declaration" in built.evidence.message


def test_the_artifact_exports_the_plain_entry_and_one_uniform_symbol() -> None:
    built = _build(f"#include <cstdint>\n{call_signature(TASK, 'kernel', has_prepared=False)} {{}}\n")
    assert isinstance(built, bytes)
    assert b"\0kernel\0" in built
    assert b"\0compiler_agent_call\0" in built


def test_macros_of_the_source_do_not_reach_the_adapter() -> None:
    macros = "#define tensors nothing\n#define sizes nothing\n#define compiler_agent_call mine\n#pragma pack(1)\n"
    honest = f"#include <cstdint>\n{call_signature(TASK, 'kernel', has_prepared=False)} {{}}\n"
    built = _build(honest + macros)
    assert isinstance(built, bytes), built
    assert b"\0compiler_agent_call\0" in built


@pytest.mark.parametrize(
    "flag",
    ["-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-o/scratch/x", "-Wl,-z,now", "-lcurl", "@/scratch/flags"],
)
def test_refuses_flags_that_reach_beyond_the_kernel(flag: str) -> None:
    with pytest.raises(SourceRefused, match="not allowed"):
        LANGUAGE.build_recipe(TASK, _candidate(build_flags=(flag,)))
    built = _builder().build(TASK, _candidate(build_flags=(flag,)))
    assert isinstance(built, Rejected)
    assert built.reason is Reason.FORBIDDEN_BUILD_FLAG


@pytest.mark.parametrize(
    "told",
    [
        {"build_flags": ("-O2",) * 9000},
        {"launch_parameters": {f"a{number}": 1 for number in range(65)}},
        {"launch_parameters": {"tile": "a" * 140_000}},
        {"launch_parameters": {"t" * 140_000: 1}},
        {"entry": "k" * 70_000},
    ],
    ids=["flags", "parameters", "value", "name", "entry"],
)
def test_what_fits_no_command_line_is_the_authors_fault(told: dict[str, Any]) -> None:
    built = _builder().build(TASK, _candidate(**told))
    assert isinstance(built, Rejected)
    assert built.reason is Reason.FORBIDDEN_BUILD_FLAG
    assert len(built.evidence.message) < 300


@pytest.mark.parametrize("entry", ["compiler_agent_call", "ker nel", "", "1st", "kernel(); evil"])
def test_refuses_entries_that_are_no_identifier_or_ours(entry: str) -> None:
    with pytest.raises(SourceRefused):
        LANGUAGE.build_recipe(TASK, _candidate(entry=entry or "-"))


@pytest.mark.parametrize("parameters", [{"a-b": 1}, {"tile": "8 -o x"}, {"tile": "$(id)"}])
def test_refuses_launch_parameters_that_are_no_macro(parameters: dict[str, int | float | str]) -> None:
    with pytest.raises(SourceRefused):
        LANGUAGE.build_recipe(TASK, _candidate(launch_parameters=parameters))


def test_parses_a_header(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text(
        "// A fast kernel\n// entry: attend\n// prepare: pack\n// launch: tile=8 rate=0.5 mode=WIDE\n"
        "// flags: -funroll-loops -O2\n\nint x;\n// entry: ignored\n"
    )
    candidate = LANGUAGE.parse(file)
    assert (candidate.entry, candidate.prepare) == ("attend", "pack")
    assert candidate.launch_parameters == {"tile": 8, "rate": 0.5, "mode": "WIDE"}
    assert candidate.build_flags == ("-funroll-loops", "-O2")
    assert candidate.source == file.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// entry: a\n// entry: b\n", ":2: a second `entry:`"),
        ("// launch: tile\n", ":1: launch parameters"),
        ("// flags:\n", ":1: `flags:` says nothing"),
        ("\n \n", "empty"),
    ],
)
def test_says_where_a_header_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        LANGUAGE.parse(file)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_parse_returns_or_raises_value_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.cpp"
    file.write_text(text, encoding="utf-8", newline="")
    with contextlib.suppress(ValueError):
        assert LANGUAGE.parse(file).language is LanguageName.CPP


def _candidate(**fields: object) -> Candidate:
    return Candidate.model_validate({"language": LanguageName.CPP, "source": "int x;", **fields})


def _builder() -> Builder:
    return Builder(BubblewrapSandbox(), {LanguageName.CPP: LANGUAGE}, slots=1)


def _build(source: str) -> bytes | Rejected:
    return _builder().build(TASK, _candidate(source=source))


def test_names_the_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"kernel\.cpp: not UTF-8 text"):
        CppLanguage().parse(path)
