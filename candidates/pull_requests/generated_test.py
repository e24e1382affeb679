"""write_test: the test that goes with a kernel, `kernel_check` with the kernel's task filled in."""

import pprint
from importlib import resources

from candidates.candidate import LanguageName
from candidates.languages.cpp import CppLanguage
from candidates.languages.cpp_report import SOURCE
from candidates.pull_requests.win import Win

_EMPTY_CASE = "CASE: dict[str, Any] = {}\n"
_FOR_US, _IMPORTS, _SPEED, _MAIN = "\n# A source of its own:", "\nimport ", "\n\n# Speed\n", "\n\ndef main("


class NoTest(Exception):
    """No test can be written for kernels in this language, so no pull request is opened for one."""


def write_test(win: Win, kernel_file: str, device: str) -> str:
    """Python; `kernel_file` lies beside it. Raises NoTest.

    Everything of others stands in it as the literal of a string. Hidden workloads are not in it: agents may read what
    is merged.
    """
    case = pprint.pformat(_case_of(win, kernel_file, device), width=110, sort_dicts=False)
    # What is left beyond ASCII after `repr` could still be taken for other letters.
    case = case.encode("ascii", "backslashreplace").decode()
    return _template().replace(_EMPTY_CASE, f"CASE: dict[str, Any] = {case}\n", 1)


def _template() -> str:
    """`kernel_check` and `kernel_speed` as one file, with all imports at its top."""
    folder = resources.files("candidates.pull_requests")
    check, speed = (folder.joinpath(name).read_text() for name in ("kernel_check.py", "kernel_speed.py"))
    imports = "\n".join(sorted({*_imports(check).splitlines(), *_imports(speed).splitlines()}))
    docstring, code = check[: check.index(_FOR_US)], check[check.index(_IMPORTS) :]
    code = code.replace(_imports(check), imports, 1)
    return docstring + code.replace(_MAIN, speed[speed.index(_SPEED) :] + _MAIN, 1)


def _imports(source: str) -> str:
    """Its first lines that import whole modules."""
    start = source.index(_IMPORTS) + 1
    return source[start : source.index("\nfrom ", start)]


def _case_of(win: Win, kernel_file: str, device: str) -> dict[str, object]:
    task, candidate = win.task, win.candidate
    case: dict[str, object] = {
        "op": task.op,
        "kernel_file": kernel_file,
        "language": candidate.language.value,
        "entry": candidate.entry,
        "prepare": candidate.prepare,
        "launch_parameters": dict(candidate.launch_parameters),
        "reference": task.reference,
        "inputs": [spec.model_dump(mode="json") for spec in task.inputs],
        "outputs": [spec.model_dump(mode="json") for spec in task.outputs],
        "axes": list(task.axes),
        "workloads": [dict(workload.axes) for workload in task.public_workloads],
        "ranges": [[bound.model_dump(mode="json") for bound in bounds] for bounds in win.ranges],
        "error_bound": task.error_bound.model_dump(mode="json"),
        "threads": task.threads,
        "device": device,
    }
    match candidate.language:
        case LanguageName.CPP:
            recipe = CppLanguage().build_recipe(task, candidate)
            case["build"] = {
                "source": SOURCE,
                "files": {name: content.decode() for name, content in recipe.files.items() if name != SOURCE},
                "commands": [list(command) for command in recipe.commands],
                "artifact": recipe.artifact,
            }
        case LanguageName.TRITON:
            pass
        case LanguageName.CUDA:
            raise NoTest(f"no test can be written yet for a kernel in {candidate.language.value}")
    return case
