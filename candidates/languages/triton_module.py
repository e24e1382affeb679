"""TritonModule: the top of a Triton candidate's file: what it imports, which constants and functions it defines.

Reads the text as PyTorch's and Triton's own loaders will: a text that one of them could read as another is refused.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from candidates.languages.triton_rules import INTERPRETERS_OWN, MODULES, VALUES

MOST_CHARACTERS = 200_000
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)
_DEFINES = re.compile(r"\s*def\b")
_BUILTINS = frozenset(dir(builtins))
_IMPORTED = frozenset.union(*VALUES.values()) | {"triton.jit", "triton.heuristics", "triton.autotune", "triton.Config"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """Something that a candidate may not say."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(slots=True, kw_only=True)
class TritonModule:
    paths: dict[str, str] = field(default_factory=dict)
    """Imported names, by what they stand for: `tl` for `triton.language`."""
    constants: dict[str, ast.expr] = field(default_factory=dict)
    annotations: list[ast.expr] = field(default_factory=list)
    """Of constants."""
    devices: dict[str, ast.FunctionDef] = field(default_factory=dict)
    """With a decorator @triton.jit."""
    hosts: dict[str, ast.FunctionDef] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def path_of(self, node: ast.expr) -> str | None:
        """`triton.language.exp` for `tl.exp`; None for what starts with no imported name."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.paths:
            return None
        return ".".join([self.paths[node.id], *reversed(names)])

    def defines(self, name: str) -> bool:
        return name in self.paths or name in self.constants or name in self.devices or name in self.hosts

    def refuse(self, node: ast.AST, message: str) -> None:
        self.findings.append(Finding(line=getattr(node, "lineno", 1), message=message))


def read_module(source: str) -> TritonModule:
    """Raises SyntaxError, or RecursionError for a text that nests too deep."""
    module = TritonModule()
    module.findings += _odd_text(source)
    try:
        tree = ast.parse(source)
    except (ValueError, MemoryError) as error:  # a null character; too many parentheses
        raise SyntaxError(str(error)) from error
    module.findings += _hidden_definitions(source, tree)
    for number, statement in enumerate(tree.body):
        _read_statement(module, statement, is_first=number == 0)
    return module


def _odd_text(source: str) -> Iterator[Finding]:
    if len(source) > MOST_CHARACTERS:
        yield Finding(line=1, message=f"more than {MOST_CHARACTERS} characters")
    for line, text in enumerate(source.split("\n"), start=1):
        # Loaders differ in where a line ends.
        if odd := next((each for each in text if not each.isprintable() and each != "\t"), None):
            yield Finding(line=line, message=f"the character {odd!a}: use spaces and plain line ends")
    if found := _CODING.search("\n".join(source.split("\n")[:2])):
        yield Finding(line=1, message=f"an encoding declaration ({found[0].strip()[:40]!r}): the file is UTF-8")


def _hidden_definitions(source: str, tree: ast.Module) -> Iterator[Finding]:
    """Triton finds a function by its text: one in a string would be taken for the real one."""
    defined = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for line, text in enumerate(source.split("\n"), start=1):
        if _DEFINES.match(text) and line not in defined:
            yield Finding(
                line=line, message="a line that starts with `def` and defines no function: write it otherwise"
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            text = source.split("\n")[node.lineno - 1]
            if not re.match(r"\s*def \w+\(", text):
                yield Finding(line=node.lineno, message="write `def name(` on a line of its own")


def _read_statement(module: TritonModule, statement: ast.stmt, *, is_first: bool) -> None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) if is_first:
            pass
        case ast.Import(names=names):
            for alias in names:
                _import(module, statement, alias.name, alias.asname or alias.name, is_renamed=alias.asname is not None)
        case ast.ImportFrom(module=str(origin), names=names, level=0):
            for alias in names:
                if origin == "__future__" and alias.name == "annotations":
                    continue
                _import(module, statement, f"{origin}.{alias.name}", alias.asname or alias.name, is_renamed=True)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            _bind(module, statement, name)
            module.constants[name] = value
            if isinstance(statement, ast.AnnAssign):
                module.annotations.append(statement.annotation)
        case ast.FunctionDef(name=name):
            _bind(module, statement, name)
            is_device = any(_is_jit(module, decorator) for decorator in statement.decorator_list)
            (module.devices if is_device else module.hosts)[name] = statement
        case _:
            module.refuse(
                statement,
                f"{words_of(statement)} at module level: only imports, constants and functions stand there",
            )


def _import(module: TritonModule, node: ast.stmt, path: str, name: str, *, is_renamed: bool) -> None:
    if path not in MODULES and path not in _IMPORTED:
        module.refuse(
            node, f"import of {path}: allowed are torch, triton, triton.language, math and what may be used of them"
        )
    elif not is_renamed and "." in path:
        module.refuse(node, f"write `import {path} as tl`")
    else:
        _bind(module, node, name, path)
        module.paths[name] = path


def _bind(module: TritonModule, node: ast.stmt, name: str, path: str | None = None) -> None:
    """`path`: of an import, which may be said again."""
    if module.defines(name) and (path is None or module.paths.get(name) != path):
        module.refuse(node, f"{name} is defined twice")
    if name in _BUILTINS:
        module.refuse(node, f"{name} is Python's own name: use another")
    if name.startswith("LAUNCH_"):
        module.refuse(node, f"{name}: names with LAUNCH_ come from the `# launch:` line")
    refuse_name(module, node, name)


def refuse_name(module: TritonModule, node: ast.AST, name: str) -> None:
    """Names that nobody may bind or use, wherever they stand."""
    if name.startswith("__"):
        module.refuse(node, f"the name {name}: no names that start with two underscores")
    elif name in INTERPRETERS_OWN or name.startswith("_Interpreter"):
        module.refuse(node, f"the name {name} belongs to Triton's interpreter")
    elif not name.isascii():
        module.refuse(node, f"the name {name!a}: use ASCII letters")


def _is_jit(module: TritonModule, decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return module.path_of(called) == "triton.jit"


def words_of(node: ast.AST) -> str:
    """What a reader calls a kind of statement or expression."""
    named = {
        ast.ClassDef: "a class",
        ast.Lambda: "a lambda",
        ast.Try: "try/except",
        ast.With: "a with statement",
        ast.Global: "global",
        ast.Nonlocal: "nonlocal",
        ast.Delete: "del",
        ast.AsyncFunctionDef: "an async function",
        ast.FunctionDef: "a function",
        ast.Import: "an import",
        ast.ImportFrom: "an import",
        ast.NamedExpr: "an assignment expression (:=)",
        ast.Yield: "yield",
        ast.YieldFrom: "yield",
        ast.Await: "await",
        ast.JoinedStr: "an f-string outside a message",
        ast.List: "a list",
        ast.Dict: "a dict",
        ast.Set: "a set",
        ast.Match: "a match statement",
        ast.Expr: "an expression",
    }
    return named.get(type(node), f"{type(node).__name__}")
