"""What a Triton candidate's source may say, checked before any of it runs; never accepts a kernel, only refuses.

Two reasons: host code in Python must not be able to deceive a judge (compute with a library, keep results from call to
call, tell one way of running it from another, reach into PyTorch), and what ships must be able to do little. The text
is only parsed here. `triton_rules` holds the lists, `triton_expressions` follows them.
"""

import ast
import re
from collections.abc import Iterable, Iterator

from candidates.candidate import Candidate
from candidates.language import SourceRefused
from candidates.languages.triton_expressions import ExpressionRules, Scope
from candidates.languages.triton_module import Finding, TritonModule, read_module
from candidates.languages.triton_rules import Place
from candidates.languages.triton_statements import check_function
from candidates.task import InputRole, KernelTask
from candidates.verdict import Reason

_MOST_FINDINGS_SHOWN = 12


def refuse_source(task: KernelTask, candidate: Candidate) -> None:
    """Raises SourceRefused with all that is wrong: FORBIDDEN_SYMBOL for what is not allowed, BUILD_FAILED for what is
    no Python or has not the entries that the task calls."""
    try:
        module = read_module(candidate.source)
        findings = find_forbidden(module, candidate)
        wrong = [] if findings else list(_wrong_entries(module, task, candidate))
    except SyntaxError as error:
        raise SourceRefused(f"line {error.lineno or 1}: {error.msg}", Reason.BUILD_FAILED) from error
    except RecursionError as error:
        raise SourceRefused("the source nests too deep", Reason.BUILD_FAILED) from error
    if findings:
        raise SourceRefused(_as_text(findings), Reason.FORBIDDEN_SYMBOL)
    if wrong:
        raise SourceRefused(_as_text(wrong), Reason.BUILD_FAILED)


def find_forbidden(module: TritonModule, candidate: Candidate) -> list[Finding]:
    """By line. `module` is the candidate's source. Raises RecursionError."""
    launch_names = frozenset(f"LAUNCH_{name}" for name in candidate.launch_parameters)
    rules = ExpressionRules(module, launch_names)
    for annotation in module.annotations:
        rules.check_annotation(annotation)
    for value in module.constants.values():
        rules.check(value, Place.MODULE, Scope())
    # A launch runs what @triton.heuristics names.
    launched = [name for function in module.devices.values() for name in _hosts_named(module, function)]
    only_prepare = _reached_by(module, [candidate.prepare]) - _reached_by(module, [candidate.entry, *launched])
    for name, function in module.hosts.items():
        check_function(rules, function, Place.PREPARE if name in only_prepare else Place.KERNEL)
    for function in module.devices.values():
        check_function(rules, function, Place.DEVICE)
    return sorted(set(module.findings))


def _reached_by(module: TritonModule, entries: Iterable[str | None]) -> set[str]:
    """Host functions among `entries`, and those that they name."""
    reached: set[str] = set()
    waiting = [each for each in entries if each is not None and each in module.hosts]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += _hosts_named(module, module.hosts[name])
    return reached


def _hosts_named(module: TritonModule, function: ast.FunctionDef) -> list[str]:
    return [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in module.hosts]


def _wrong_entries(module: TritonModule, task: KernelTask, candidate: Candidate) -> Iterator[Finding]:
    tensors = [spec.name for spec in (*task.inputs, *task.outputs)]
    prepared = ["prepared"] if candidate.prepare is not None else []
    yield from _wrong_entry(module, candidate.entry, [*tensors, *prepared, *task.axes])
    if candidate.prepare is not None:
        parameters = [spec.name for spec in task.inputs_of(InputRole.PARAMETER)]
        yield from _wrong_entry(module, candidate.prepare, parameters)


def _wrong_entry(module: TritonModule, name: str, given: list[str]) -> Iterator[Finding]:
    function = module.hosts.get(name)
    if function is None:
        what = (
            "a @triton.jit function; the entry is the host function that launches it" if name in module.devices else ""
        )
        yield Finding(line=1, message=f"{name} is {what}" if what else f"no function `def {name}({', '.join(given)})`")
        return
    arguments = function.args
    taken = len(arguments.posonlyargs) + len(arguments.args)
    needed = taken - len(arguments.defaults)
    if needed > len(given) or (arguments.vararg is None and len(given) > taken):
        yield Finding(
            line=function.lineno, message=f"{name} takes {taken} arguments and gets {len(given)}: {', '.join(given)}"
        )
    if any(default is None for default in arguments.kw_defaults):
        yield Finding(line=function.lineno, message=f"{name} gets no keyword arguments")


def _as_text(findings: list[Finding]) -> str:
    shown = [str(finding) for finding in findings[:_MOST_FINDINGS_SHOWN]]
    if more := len(findings) - len(shown):
        shown.append(f"and {more} more")
    return "; ".join(re.sub(r"\s+", " ", text) for text in shown)
