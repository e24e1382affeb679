"""ExpressionRules: which expressions a Triton candidate may write, by place; all else is a finding."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from candidates.languages.triton_module import TritonModule, refuse_name, words_of
from candidates.languages.triton_rules import (
    ANNOTATIONS,
    ATTRIBUTES,
    BUILTINS,
    HOST_KEYWORDS,
    LAUNCH_OPTIONS,
    LIMITS_OF_A_DTYPE,
    NEED_DEVICE,
    VALUES,
    Place,
)

_BUILTINS = frozenset(dir(builtins))
_IN_HOST = (Place.KERNEL, Place.PREPARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Names that Python takes for local, as its compiler decides it: whatever a function binds anywhere in it."""

    names: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    """Names for nothing but `x.device`, to be given on and not to be looked at."""
    outer: "Scope | None" = None

    def holds(self, name: str) -> bool:
        return name in self.names or (self.outer is not None and self.outer.holds(name))

    def is_device(self, name: str) -> bool:
        if name in self.names:
            return name in self.devices
        return self.outer is not None and self.outer.is_device(name)

    def inner(self, names: Iterable[str], devices: frozenset[str] = frozenset()) -> "Scope":
        return Scope(names=frozenset(names), devices=devices, outer=self)


@dataclass(frozen=True, slots=True)
class ExpressionRules:
    module: TritonModule
    launch_names: frozenset[str] = field(default_factory=frozenset)

    def check_all(self, nodes: Iterable[ast.expr | None], place: Place, scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self.check(node, place, scope)

    def check(self, node: ast.expr, place: Place, scope: Scope, *, is_message: bool = False) -> None:
        """`is_message`: shown to a reader and to nobody else, so that it may hold any text."""
        match node:
            case ast.Constant(value=value):
                self._check_constant(node, value, place, is_message=is_message)
            case ast.Name(id=name):
                self._check_name(node, name, place, scope)
            case ast.Attribute():
                self._check_attribute(node, place, scope)
            case ast.Call():
                self._check_call(node, place, scope, is_message=is_message)
            case ast.BinOp(left=left, op=op, right=right):
                if isinstance(op, ast.MatMult) and place is not Place.PREPARE:
                    self.module.refuse(node, f"the operator @ {place.value}")
                self.check(left, place, scope, is_message=is_message)
                self.check(right, place, scope, is_message=is_message)
            case ast.UnaryOp(operand=operand):
                self.check(operand, place, scope)
            case ast.BoolOp(values=values) | ast.Tuple(elts=values):
                self.check_all(values, place, scope)
            case ast.Compare(left=left, ops=ops, comparators=others):
                self._check_identity(node, ops, [left, *others])
                self.check_all([left, *others], place, scope)
            case ast.IfExp(test=test, body=body, orelse=other):
                self.check_all([test, body, other], place, scope)
            case ast.Subscript(value=value, slice=index):
                self.check_all([value, index], place, scope)
            case ast.Slice(lower=lower, upper=upper, step=step):
                self.check_all([lower, upper, step], place, scope)
            case ast.JoinedStr(values=values) if is_message and place is not Place.MODULE:
                for value in values:
                    self.check(value, place, scope, is_message=True)
            case ast.FormattedValue(value=value, format_spec=spec):
                self.check(value, place, scope)
                if spec is not None:
                    self.check(spec, place, scope, is_message=True)
            case ast.List(elts=values) if place is not Place.MODULE:
                self.check_all(values, place, scope)
            case _ if place in _IN_HOST:
                self._check_host_only(node, place, scope)
            case _:
                self.module.refuse(node, f"{words_of(node)} {place.value}")

    def check_annotation(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=None):
                return
            case ast.Name(id=name) if name in ANNOTATIONS:
                return
            case ast.Subscript(value=value, slice=index):
                self.check_annotation(value)
                for each in index.elts if isinstance(index, ast.Tuple) else [index]:
                    self.check_annotation(each)
                return
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                self.check_annotation(left)
                self.check_annotation(right)
                return
            case ast.Constant(value=value) if value is Ellipsis:
                return
        path = self.module.path_of(node)
        if path not in VALUES[Place.KERNEL] and path not in ("triton.language.tensor", "triton.language.const"):
            self.module.refuse(node, f"the annotation {ast.unparse(node)[:60]}")

    def is_launch(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)

    def check_launch(self, node: ast.Call, place: Place, scope: Scope) -> None:
        """`kernel[grid](...)` as a statement."""
        assert isinstance(node.func, ast.Subscript)
        launched = node.func.value
        if not isinstance(launched, ast.Name) or launched.id not in self.module.devices or scope.holds(launched.id):
            self.module.refuse(
                node, f"{ast.unparse(launched)[:60]}[...](...): launch a @triton.jit function by its name"
            )
            return
        function = self.module.devices[launched.id]
        taken = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args)}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.module.refuse(node, "a launch with **: write its keyword arguments out")
            elif keyword.arg not in taken | LAUNCH_OPTIONS:
                options = ", ".join(sorted(LAUNCH_OPTIONS))
                self.module.refuse(
                    node, f"{keyword.arg}= is no parameter of {launched.id} and no option of a launch ({options})"
                )
        self.check(node.func.slice, place, scope)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        self.check_all((each for each in arguments if not self._is_device_function(each, scope)), place, scope)

    def check_device(self, node: ast.expr, place: Place, scope: Scope) -> None:
        """Where a tensor is to lie: where another one does."""
        match node:
            case ast.Attribute(value=value, attr="device"):
                self.check(value, place, scope)
            case ast.Name(id=name) if scope.is_device(name):
                pass
            case _:
                self.module.refuse(node, f"device={ast.unparse(node)[:40]}: write device=x.device of a tensor x")

    def _is_device_function(self, node: ast.expr, scope: Scope) -> bool:
        return isinstance(node, ast.Name) and node.id in self.module.devices and not scope.holds(node.id)

    def _check_constant(self, node: ast.expr, value: object, place: Place, *, is_message: bool) -> None:
        if isinstance(value, bytes | complex):
            self.module.refuse(node, f"the constant {value!r:.40}")
        # Formatting a tensor shows where it lies.
        if isinstance(value, str) and not is_message and any(each in value for each in "%{}"):
            self.module.refuse(node, f"the string {value!r:.40}: text is formatted in assert and raise only")

    def _check_name(self, node: ast.Name, name: str, place: Place, scope: Scope) -> None:
        refuse_name(self.module, node, name)
        if scope.is_device(name):
            self.module.refuse(node, f"{name}: a device is given on as device={name} and not looked at")
        if scope.holds(name):
            return
        if name in self.module.paths:
            path = self.module.paths[name]
            if path not in VALUES[place]:
                self.module.refuse(node, f"{path} as a value {place.value}")
        elif name in self.module.hosts:
            if place is Place.DEVICE or place is Place.MODULE:
                self.module.refuse(node, f"the host function {name} {place.value}")
        elif name in self.module.devices:
            self.module.refuse(node, f"{name} as a value: a @triton.jit function is launched, called, or passed to one")
        elif name in self.module.constants or name in self.launch_names:
            return
        elif name in _BUILTINS:
            if name not in BUILTINS[place]:
                self.module.refuse(node, f"{name} {place.value}")
        elif name.startswith("LAUNCH_"):
            self.module.refuse(node, f"{name} is not on the `# launch:` line")
        else:
            self.module.refuse(node, f"{name} is not defined")

    def _check_attribute(self, node: ast.Attribute, place: Place, scope: Scope) -> None:
        path = self.module.path_of(node)
        if path is not None:
            if path not in VALUES[place]:
                self.module.refuse(node, f"{path} {place.value}")
            return
        refuse_name(self.module, node, node.attr)
        if node.attr == "device":
            self.module.refuse(node, ".device is given on as device=x.device and not looked at")
        of_limits = isinstance(node.value, ast.Call) and self.module.path_of(node.value.func) in (
            "torch.finfo",
            "torch.iinfo",
        )
        if node.attr not in (LIMITS_OF_A_DTYPE if of_limits else ATTRIBUTES[place]):
            self.module.refuse(node, f".{node.attr} {place.value}")
        self.check(node.value, place, scope)

    def _check_call(self, node: ast.Call, place: Place, scope: Scope, *, is_message: bool) -> None:
        function = node.func
        path = self.module.path_of(function)
        match function:
            case ast.Subscript():
                self.module.refuse(node, "a launch within an expression: it is a statement and has no result")
                return
            case ast.Name(id=name) if self._is_device_function(function, scope):
                if place is not Place.DEVICE:
                    self.module.refuse(node, f"{name}(...) without a grid: launch it as {name}[grid](...)")
            case ast.Name(id=name) if place is Place.DEVICE and (scope.holds(name) or name in self.module.constants):
                self.module.refuse(
                    node, f"{name}(...): a kernel calls triton.language and @triton.jit functions by name"
                )
            case ast.Name() | ast.Attribute():
                self.check(function, place, scope)
            case _:
                self.module.refuse(node, f"a call of {words_of(function)}")
        if path in NEED_DEVICE and not any(keyword.arg == "device" for keyword in node.keywords):
            self.module.refuse(node, f"{path} without device=: it would lie on the CPU; write device=x.device")
        is_own = isinstance(function, ast.Name) and (scope.holds(function.id) or function.id in self.module.hosts)
        self._check_keywords(node, place, is_own=is_own)
        # What an assertion says besides its condition.
        has_message = path in ("triton.language.static_assert", "triton.language.device_assert")
        arguments = [("", each) for each in node.args] + [(each.arg or "", each.value) for each in node.keywords]
        for number, (keyword, argument) in enumerate(arguments):
            if keyword == "device" and not is_own:
                self.check_device(argument, place, scope)
            elif place is not Place.DEVICE or not self._is_device_function(argument, scope):
                shown = has_message and (keyword == "msg" or (number == 1 and not keyword))
                self.check(argument, place, scope, is_message=is_message or shown)

    def _check_keywords(self, node: ast.Call, place: Place, *, is_own: bool) -> None:
        for keyword in node.keywords:
            if keyword.arg is None:
                self.module.refuse(node, "a call with **: write its keyword arguments out")
            elif keyword.arg.startswith("_"):
                self.module.refuse(node, f"{keyword.arg}=: Triton's and PyTorch's internals")
            elif place is not Place.DEVICE and not is_own and keyword.arg not in HOST_KEYWORDS:
                self.module.refuse(node, f"{keyword.arg}= {place.value}")

    def _check_identity(self, node: ast.expr, ops: list[ast.cmpop], operands: list[ast.expr]) -> None:
        if any(isinstance(op, ast.Is | ast.IsNot) for op in ops) and not any(
            isinstance(operand, ast.Constant) and operand.value is None for operand in operands
        ):
            self.module.refuse(
                node, "`is` with anything but None: whether two objects are one is no property of a value"
            )

    def _check_host_only(self, node: ast.expr, place: Place, scope: Scope) -> None:
        match node:
            case ast.Starred(value=value):
                self.check(value, place, scope)
            case ast.Set(elts=values):
                self.check_all(values, place, scope)
            case ast.Dict(keys=keys, values=values):
                if any(key is None for key in keys):
                    self.module.refuse(node, "a dict with **")
                self.check_all([*keys, *values], place, scope)
            case ast.Lambda(args=arguments, body=body):
                self.check_defaults(arguments, place, scope)
                self.check(body, place, scope.inner(parameters_of(self.module, arguments)))
            case ast.ListComp(elt=first, generators=generators) | ast.GeneratorExp(elt=first, generators=generators):
                self._check_comprehension([first], generators, place, scope)
            case ast.SetComp(elt=first, generators=generators):
                self._check_comprehension([first], generators, place, scope)
            case ast.DictComp(key=key, value=value, generators=generators):
                self._check_comprehension([key, value], generators, place, scope)
            case _:
                self.module.refuse(node, f"{words_of(node)} {place.value}")

    def _check_comprehension(
        self, results: list[ast.expr], generators: list[ast.comprehension], place: Place, scope: Scope
    ) -> None:
        # Python evaluates the first source outside.
        self.check(generators[0].iter, place, scope)
        inner = scope.inner(name for each in generators for name in bound_names(self.module, each.target))
        for number, each in enumerate(generators):
            if each.is_async:
                self.module.refuse(each.iter, "async")
            self.check_all([*([each.iter] if number else []), *each.ifs], place, inner)
        self.check_all(results, place, inner)

    def check_defaults(self, arguments: ast.arguments, place: Place, scope: Scope) -> None:
        self.check_all([*arguments.defaults, *arguments.kw_defaults], place, scope)


def parameters_of(module: TritonModule, arguments: ast.arguments) -> Iterator[str]:
    """Names that a function or lambda binds by its parameters."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in filter(None, every):
        refuse_binding(module, argument, argument.arg)
        yield argument.arg


def bound_names(module: TritonModule, target: ast.expr) -> Iterator[str]:
    """Names that an assignment, a loop or a comprehension binds; a finding for every other target."""
    match target:
        case ast.Name(id=name):
            refuse_binding(module, target, name)
            yield name
        case ast.Tuple(elts=values) | ast.List(elts=values):
            for value in values:
                yield from bound_names(module, value)
        case ast.Starred(value=value):
            yield from bound_names(module, value)
        case ast.Subscript():
            pass  # binds nothing; where it may stand is decided by the statement
        case _:
            module.refuse(target, f"an assignment to {ast.unparse(target)[:60]}: objects are not changed")


def refuse_binding(module: TritonModule, node: ast.AST, name: str) -> None:
    refuse_name(module, node, name)
    if name in module.paths or name in module.devices or name in module.hosts or name.startswith("LAUNCH_"):
        module.refuse(node, f"{name} is bound again: it is a name of the module")
