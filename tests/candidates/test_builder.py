"""Builder: what comes back of a build that fails, by whose fault."""

import pytest

from candidates.builder import Builder, CompilerUnavailable
from candidates.candidate import Candidate, LanguageName
from candidates.language import BuildRecipe, KernelLanguage
from candidates.languages.cpp import CppLanguage
from candidates.task import ErrorBound, KernelTask, SiteLevel, Workload
from candidates.verdict import Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox

TASK = KernelTask(
    op="nothing",
    site="tests.nothing",
    level=SiteLevel.LEAF,
    reference="def reference():\n    return ()\n",
    inputs=(),
    outputs=(),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 1}, calls_per_hour=1.0),),
    error_bound=ErrorBound(scaled_error=0.0),
    device_id="cpu-test",
)


class MissingCompiler(CppLanguage):
    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        return BuildRecipe(files={}, commands=(("no-such-compiler",),), artifact="kernel.so")


def build(source: str, language: KernelLanguage | None = None) -> bytes | Rejected:
    builder = Builder(BubblewrapSandbox(), {LanguageName.CPP: language or CppLanguage()}, slots=1)
    return builder.build(TASK, Candidate(language=LanguageName.CPP, source=source))


def test_the_first_error_is_the_message() -> None:
    built = build("int first = missing_name;\nint second = another_missing_name;")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED
    assert "missing_name" in built.evidence.message
    assert "another_missing_name" in built.evidence.log_tail


def test_a_build_that_eats_memory_is_the_candidates_fault() -> None:
    built = build("template <int n> struct Eat { Eat<n + 1>* next; char c[sizeof(Eat<n + 1>)]; }; Eat<0> eat;")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED


def test_an_artifact_too_large_to_ship_is_the_candidates_fault() -> None:
    built = build("char big[40 << 20] = {1};")
    assert isinstance(built, Rejected)
    assert built.reason is Reason.BUILD_FAILED


def test_host_files_cannot_be_included() -> None:
    built = build('#include "/etc/passwd"\n')
    assert isinstance(built, Rejected)
    assert "No such file" in built.evidence.message
    assert "root:" not in built.evidence.log_tail


def test_a_missing_compiler_is_the_machines_fault() -> None:
    with pytest.raises(CompilerUnavailable, match="no-such-compiler"):
        build("int x;", MissingCompiler())


def test_a_language_that_is_not_set_up_is_the_machines_fault() -> None:
    builder = Builder(BubblewrapSandbox(), {}, slots=1)
    with pytest.raises(CompilerUnavailable):
        builder.build(TASK, Candidate(language=LanguageName.CPP, source="int x;"))
