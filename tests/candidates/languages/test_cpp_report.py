"""What the report says of kernels that g++ compiles in the sandbox: vectors, reasons, spills, calls, failures."""

import dataclasses
import platform

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.builder import CompilerUnavailable
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import MOST_CHARACTERS, CompilerReport, LoopCode
from candidates.compiler_reports import CompilerReports, without_folders
from candidates.languages.cpp import CppLanguage
from candidates.languages.cpp_report import read_report
from tests.judge_tasks import BUILDER, RMSNORM

REPORTS = CompilerReports(BUILDER, {LanguageName.CPP: CppLanguage()})
SIGNATURE = 'extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {\n'
# Two lines before the body: the loop below is line 3.
HEAD = "#include <cstdint>\n" + SIGNATURE
MULTIPLY = "for (int64_t i = 0; i < rows * 576; ++i) y[i] = x[i] * 2;\n}\n"
CALL = "for (int64_t i = 0; i < rows * 576; ++i) y[i] = std::exp(x[i]);\n}\n"
NEEDS_FIRST = "for (int64_t i = 1; i < rows * 576; ++i) y[i] = y[i - 1] * x[i];\n}\n"
SPILL = """\
float sum[40] = {};
for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 64
  for (int k = 0; k < 40; ++k) sum[k] = sum[k] * x[i * 576 + k] + x[i * 576 + 39 - k] / sum[39 - k];
}
for (int k = 0; k < 40; ++k) y[k] = sum[k];
}
"""

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="loops are read in instructions of x86_64")


def report_of(source: str, **fields: object) -> CompilerReport:
    candidate = {"language": LanguageName.CPP, "source": source, **fields}
    return REPORTS.report(RMSNORM, Candidate.model_validate(candidate))


def test_says_what_was_vectorised_and_with_which_width() -> None:
    report = report_of(HEAD + MULTIPLY, build_flags=("-mprefer-vector-width=256",))
    (remark,) = [remark for remark in report.remarks if "loop vectorized" in remark.text]
    assert (remark.line, remark.is_vectorized, remark.source) == (3, True, MULTIPLY.splitlines()[0])
    assert "vectorized" in report.as_text()


def test_says_why_a_loop_was_not_vectorised() -> None:
    (remark,) = [remark for remark in report_of(HEAD + NEEDS_FIRST).remarks if remark.line == 3]
    assert not remark.is_vectorized
    assert remark.text


@x86_64
def test_shows_the_machine_code_of_the_loop_with_most_arithmetic() -> None:
    loop = report_of(HEAD + MULTIPLY).loops[0]
    assert (loop.function, loop.first_line, loop.last_line) == ("kernel", 3, 3)
    assert loop.vector_bits >= 128
    assert loop.vector_instructions > 0
    assert loop.calls == ()
    assert "# line 3" in loop.assembly


@x86_64
def test_a_flag_of_the_candidate_shows() -> None:
    report = report_of(HEAD + MULTIPLY, build_flags=("-fno-tree-vectorize", "-fno-tree-slp-vectorize"))
    assert report.vector_bits == 0
    assert report.loops[0].scalar_float_instructions > 0


@x86_64
def test_a_call_in_a_loop_is_named() -> None:
    report = report_of("#include <cmath>\n" + HEAD + CALL)
    assert "expf" in {callee for loop in report.loops for callee in loop.calls}
    assert "calls expf" in report.as_text()


@x86_64
def test_spilled_registers_are_counted() -> None:
    assert max(loop.stack_accesses for loop in report_of(HEAD + SPILL).loops) > 0


@x86_64
def test_the_body_of_a_parallel_region_is_a_function_of_its_own() -> None:
    report = report_of(HEAD + "#pragma omp parallel for\n" + MULTIPLY)
    assert report.loops[0].function == "kernel._omp_fn.0"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (HEAD + "return missing_name;\n}\n", "missing_name"),
        # compiles, and does not link
        (HEAD + '}\nextern "C" void compiler_agent_call() {}\n', "multiple definition"),
    ],
)
def test_of_a_candidate_that_does_not_build_only_the_compilers_message_is_left(source: str, said: str) -> None:
    report = report_of(source)
    assert said in report.failure
    assert (report.remarks, report.loops, report.notes) == ((), (), ())
    assert report.as_text().startswith("The candidate does not build:")


def test_a_flag_that_is_refused_is_a_failure() -> None:
    assert "not allowed" in report_of(HEAD + MULTIPLY, build_flags=("-Ofast",)).failure


def test_the_code_that_is_shown_is_that_of_the_build() -> None:
    candidate = Candidate(language=LanguageName.CPP, source=HEAD + "#pragma omp parallel for\n" + MULTIPLY)
    code = []
    for recipe in (CppLanguage().build_recipe(RMSNORM, candidate), CppLanguage().report_recipe(RMSNORM, candidate)):
        to_bytes = ("objcopy", "-O", "binary", "--only-section=.text", "kernel.so", "text")
        with_code = dataclasses.replace(recipe, commands=(*recipe.commands, to_bytes), artifact="text")
        code.append(BUILDER.follow(lambda recipe=with_code: recipe))
    assert isinstance(code[0], bytes)
    assert code[0] == code[1]


def test_no_folder_of_the_machine_is_shown() -> None:
    fails_in_a_header = "#include <algorithm>\nstruct A {};\nbool b = std::max(A{}, A{}).x;\n"
    for report in (report_of(fails_in_a_header), report_of("#include <cmath>\n" + HEAD + CALL)):
        assert report.model_dump_json().replace("</", "").count("/usr") == 0
        assert "/scratch" not in report.model_dump_json()


def test_folders_are_left_out_and_nothing_else() -> None:
    text = "In file included from /usr/include/c++/12/cmath:45,\ncandidate.cpp:3: x = a / b / c; // see http://a.b/c/d"
    assert without_folders(text) == text.replace("/usr/include/c++/12/", "")


def test_a_language_without_reports_is_the_machines_lack() -> None:
    with pytest.raises(CompilerUnavailable, match="no compiler reports for triton"):
        report_of("x", language=LanguageName.TRITON)


def test_the_text_is_bounded_however_much_there_is_to_say() -> None:
    loop = "for (int64_t i = 0; i < rows * 576; ++i) y[i] = x[i] * {0} + x[i % 7] / {0};\n"
    body = "".join(loop.replace("{0}", str(number)) for number in range(2, 60))
    report = report_of(HEAD + body + "}\n")
    assert 1000 < len(report.as_text()) <= MOST_CHARACTERS
    assert any("more" in note for note in report.notes)
    assert sum(len(loop.assembly.splitlines()) for loop in report.loops) <= 60


def test_remarks_that_a_candidate_makes_up_are_harmless() -> None:
    made_up = "".join(f"candidate.cpp:{line}:1: optimized: {line}\n" for line in (0, 1, 99, "9" * 5000))
    assert [remark.text for remark in read_report("int x;\n", made_up).remarks] == ["1"]


PIECES = ["candidate.cpp:1:2: ", "optimized: ", "missed: ", "\tjne .L2", "\tcall *%rax", "\n", "f:", ".L2:"]


@given(st.text(), st.lists(st.sampled_from(PIECES)))
def test_any_report_is_read(source: str, parts: list[str]) -> None:
    assert read_report(source, "".join(parts)).failure == ""


def test_more_code_than_can_be_read_is_said_and_not_read() -> None:
    report = read_report("int x;\n", "\tincq %rax\n" * 300_000)
    assert (report.loops, report.remarks) == ((), ())
    assert "too much to read" in report.as_text()


def test_text_is_cut_at_whole_lines() -> None:
    loop = LoopCode(
        function="kernel",
        depth=1,
        first_line=None,
        last_line=None,
        instructions=9,
        vector_instructions=0,
        vector_bits=0,
        scalar_float_instructions=0,
        stack_accesses=0,
        calls=(),
        assembly="\n".join(f"  incq %r{number}" for number in range(9)),
        left_out=0,
    )
    report = CompilerReport(loops=(loop,))
    whole = report.as_text()
    for most in range(20, len(whole) + 2):
        text = report.as_text(most)
        assert len(text) <= most
        assert text == whole or text.endswith("(cut here)")
