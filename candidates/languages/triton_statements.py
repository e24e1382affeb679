"""Which statements the functions of a Triton candidate may hold, by place; all else is a finding."""

import ast
from collections.abc import Iterator, Sequence

from candidates.languages.triton_expressions import (
    ExpressionRules,
    Scope,
    bound_names,
    parameters_of,
    refuse_binding,
)
from candidates.languages.triton_module import TritonModule, words_of
from candidates.languages.triton_rules import EXCEPTIONS, RESERVED_PARAMETERS, Place

_JIT_OPTIONS = frozenset({"do_not_specialize", "do_not_specialize_on_alignment", "noinline"})


def check_function(rules: ExpressionRules, function: ast.FunctionDef, place: Place, outer: Scope | None = None) -> None:
    """A function of the module, or (with `outer`, its scope) one within a host function."""
    module, arguments = rules.module, function.args
    if getattr(function, "type_params", None):
        module.refuse(function, "type parameters")
    if outer is not None and function.decorator_list:
        module.refuse(function, "a decorator within a function")
    elif outer is None:
        _check_decorators(rules, function, place)
        _check_constant_defaults(module, arguments)
    if outer is not None:
        rules.check_defaults(arguments, place, outer)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in filter(None, every):
        if argument.annotation is not None:
            rules.check_annotation(argument.annotation)
        if place is Place.DEVICE and argument.arg in RESERVED_PARAMETERS:
            module.refuse(argument, f"a parameter named {argument.arg}, which is an option of Triton's compiler")
    if function.returns is not None:
        rules.check_annotation(function.returns)
    if arguments.kwarg is not None or (place is Place.DEVICE and arguments.vararg is not None):
        module.refuse(function, "parameters with **" if arguments.kwarg else "parameters with *")
    body = function.body
    names = [*parameters_of(module, arguments), *_bound_in(module, body)]
    devices = frozenset(name for name in _given_devices(function) if names.count(name) == 1)
    scope = (outer or Scope()).inner(names, devices)
    if (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:]
    _check_statements(rules, body, place, scope)


def _check_statements(rules: ExpressionRules, body: Sequence[ast.stmt], place: Place, scope: Scope) -> None:
    for statement in body:
        _check_statement(rules, statement, place, scope)


def _check_statement(rules: ExpressionRules, statement: ast.stmt, place: Place, scope: Scope) -> None:
    is_host = place is not Place.DEVICE
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if scope.is_device(name):
            rules.check_device(value, place, scope)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _check_target(rules, target, place, scope)
            rules.check(value, place, scope)
        case ast.AugAssign(target=target, value=value):
            _check_target(rules, target, place, scope)
            rules.check(value, place, scope)
        case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr() as value):
            _check_target(rules, target, place, scope)
            rules.check_annotation(annotation)
            rules.check(value, place, scope)
        case ast.Expr(value=ast.Call() as call) if is_host and rules.is_launch(call):
            rules.check_launch(call, place, scope)
        case ast.Expr(value=ast.Call() as call):
            rules.check(call, place, scope)
        case ast.If(test=test, body=body, orelse=other) | ast.While(test=test, body=body, orelse=other):
            rules.check(test, place, scope)
            _check_statements(rules, [*body, *other], place, scope)
        case ast.For(target=target, iter=source, body=body, orelse=other):
            _check_target(rules, target, place, scope)
            rules.check(source, place, scope)
            _check_statements(rules, [*body, *other], place, scope)
        case ast.Return(value=value):
            rules.check_all([value], place, scope)
        case ast.Assert(test=test, msg=message):
            rules.check(test, place, scope)
            if message is not None:
                rules.check(message, place, scope, is_message=True)
        case ast.Raise(exc=raised, cause=None) if is_host:
            _check_raise(rules, statement, raised, place, scope)
        case ast.FunctionDef() if is_host:
            check_function(rules, statement, place, scope)
        case ast.Pass() | ast.Break() | ast.Continue():
            pass
        case _:
            rules.module.refuse(statement, f"{words_of(statement)} {place.value}")


def _check_target(rules: ExpressionRules, target: ast.expr, place: Place, scope: Scope) -> None:
    match target:
        case ast.Subscript() if place is Place.PREPARE:
            rules.check_all([target.value, target.slice], place, scope)
        case ast.Subscript():
            rules.module.refuse(target, f"an assignment to {ast.unparse(target)[:60]} {place.value}")
        case ast.Tuple(elts=values) | ast.List(elts=values):
            for value in values:
                _check_target(rules, value, place, scope)
        case ast.Starred(value=value):
            _check_target(rules, value, place, scope)


def _check_raise(rules: ExpressionRules, node: ast.stmt, raised: ast.expr | None, place: Place, scope: Scope) -> None:
    match raised:
        case ast.Name(id=name) if name in EXCEPTIONS and not scope.holds(name):
            pass
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in EXCEPTIONS and not scope.holds(
            name
        ):
            for argument in arguments:
                rules.check(argument, place, scope, is_message=True)
        case _:
            rules.module.refuse(node, f"raise of anything but {', '.join(sorted(EXCEPTIONS))}")


def _check_decorators(rules: ExpressionRules, function: ast.FunctionDef, place: Place) -> None:
    module = rules.module
    for number, decorator in enumerate(function.decorator_list):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        path = module.path_of(called)
        is_last = number == len(function.decorator_list) - 1
        if path == "triton.jit" and is_last and isinstance(decorator, ast.Call):
            _check_jit_options(module, decorator)
        elif path == "triton.heuristics" and not is_last and isinstance(decorator, ast.Call):
            _check_heuristics(rules, decorator)
        elif path in ("triton.autotune", "triton.Config"):
            module.refuse(
                decorator,
                "triton.autotune: choices are searched from outside, by LAUNCH_ names of the `# launch:` line",
            )
        elif not (path == "triton.jit" and is_last):
            module.refuse(
                decorator, "a decorator other than @triton.jit, over which @triton.heuristics({name: lambda}) may stand"
            )


def _check_jit_options(module: TritonModule, decorator: ast.Call) -> None:
    for keyword in decorator.keywords:
        values = keyword.value.elts if isinstance(keyword.value, ast.List | ast.Tuple) else [keyword.value]
        if keyword.arg not in _JIT_OPTIONS or not all(isinstance(value, ast.Constant) for value in values):
            module.refuse(decorator, f"@triton.jit with {keyword.arg}=: only {', '.join(sorted(_JIT_OPTIONS))}")
    if decorator.args:
        module.refuse(decorator, "@triton.jit with an argument")


def _check_heuristics(rules: ExpressionRules, decorator: ast.Call) -> None:
    match decorator:
        case ast.Call(args=[ast.Dict(keys=keys, values=values)], keywords=[]) if all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value not in RESERVED_PARAMETERS
            for key in keys
        ) and all(isinstance(value, ast.Lambda) for value in values):
            rules.check_all(values, Place.KERNEL, Scope())
        case _:
            rules.module.refuse(decorator, "@triton.heuristics takes a dict of lambdas by name of a parameter")


def _check_constant_defaults(module: TritonModule, arguments: ast.arguments) -> None:
    for default in filter(None, [*arguments.defaults, *arguments.kw_defaults]):
        inner = default.operand if isinstance(default, ast.UnaryOp) else default
        if not isinstance(inner, ast.Constant):
            module.refuse(default, f"the default {ast.unparse(default)[:40]}: only constants, which keep no state")


def _given_devices(function: ast.FunctionDef) -> Iterator[str]:
    """Names of which an assignment is `name = x.device`."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="device")):
                yield name


def _bound_in(module: TritonModule, body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that a function's own statements bind, without functions and comprehensions within it."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from bound_names(module, target)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield from bound_names(module, target)
            case ast.For(target=target, body=inner, orelse=other):
                yield from bound_names(module, target)
                yield from _bound_in(module, [*inner, *other])
            case ast.If(body=inner, orelse=other) | ast.While(body=inner, orelse=other):
                yield from _bound_in(module, [*inner, *other])
            case ast.FunctionDef(name=name):
                refuse_binding(module, statement, name)
                yield name
