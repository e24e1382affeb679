"""What a Triton candidate's source may say: each refused text is one idea of deceiving a judge or of reaching out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.candidate import Candidate, LanguageName
from candidates.language import SourceRefused
from candidates.languages.triton_module import Finding, read_module
from candidates.languages.triton_source import find_forbidden, refuse_source
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Reason

IMPORTS = "import math\nimport torch\nimport triton\nimport triton.language as tl\n"
DEVICE = """
@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
"""
LAUNCH = "_copy[(triton.cdiv(rows, LAUNCH_BLOCK),)](x, y, rows, BLOCK=LAUNCH_BLOCK)"
KERNEL = f"def kernel(x, w, y, rows):\n    {LAUNCH}\n"


def in_module(text: str) -> str:
    return f"{IMPORTS}{DEVICE}{text}\n{KERNEL}"


def in_kernel(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in "\n".join(lines).split("\n"))
    return f"{IMPORTS}{DEVICE}def kernel(x, w, y, rows):\n{body}\n    {LAUNCH}\n"


def in_device(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in "\n".join(lines).split("\n"))
    return f"{IMPORTS}@triton.jit\ndef _copy(x, y, n, BLOCK: tl.constexpr):\n{body}\n{KERNEL}"


def in_prepare(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"{IMPORTS}{DEVICE}def pack(w):\n{body}\n{KERNEL.replace('y, rows', 'y, prepared, rows')}"


REFUSED = {
    # Reaching out
    "imports_os": in_module("import os"),
    "imports_another_under_the_same_name": in_module("from torch import matmul as f\nF = f\nfrom math import exp as f"),
    "imports_a_part_of_torch": in_module("import torch.utils.cpp_extension"),
    "imports_from_os": in_module("from os import system"),
    "imports_a_star": in_module("from torch import *"),
    "imports_relatively": in_module("from . import judge"),
    "imports_within_a_function": in_kernel("import ctypes"),
    "imports_triton_runtime": in_module("import triton.runtime.jit as jit"),
    "calls_import": in_kernel("__import__('os').system('id')"),
    "opens_a_file": in_kernel("open('/proc/self/maps')"),
    "evaluates_text": in_kernel("eval('1')"),
    "executes_text": in_module("exec('x = 1')"),
    "asks_for_an_attribute": in_kernel("getattr(torch, 'mat' + 'mul')(x, w)"),
    "reads_globals": in_kernel("globals()"),
    "reads_builtins": in_kernel("__builtins__"),
    "walks_to_a_class": in_kernel("().__class__.__base__.__subclasses__()"),
    "walks_by_a_format_string": in_kernel("z = '{0.__class__}'.format(x)"),
    "walks_by_an_f_string": in_kernel("z = f'{x}'"),
    "loads_pickled_code": in_kernel("torch.load('/scratch/x')"),
    "loads_a_library": in_kernel("torch.ops.load_library('/scratch/x.so')"),
    "compiles_cpp": in_kernel("torch.utils.cpp_extension.load_inline('a', 'b')"),
    "reaches_pointers": in_kernel("z = x.data_ptr()"),
    "reaches_storage": in_kernel("z = x.untyped_storage()"),
    "writes_a_file_from_numpy": in_kernel("x.numpy().tofile('/scratch/x')"),
    "runs_a_decorator": in_module("@print\ndef f(x):\n    return x"),
    "runs_at_load": in_module("torch.zeros(1)"),
    "runs_in_a_default": in_module("def f(x=torch.zeros(1)):\n    return x"),
    "runs_in_an_annotation": in_module("def f(x: open('/etc/passwd')):\n    return x"),
    "runs_in_an_annotation_of_a_constant": in_module("X: print('a') = 1"),
    "runs_in_a_decorators_argument": in_module("@triton.jit(repr=lambda s: open('/x'))\ndef f(x):\n    tl.store(x, 0)"),
    "names_a_builtin_that_is_local_elsewhere": in_kernel("def f():\n    eval = 1\n    return eval\neval('1')"),
    "names_a_builtin_before_it_is_bound": in_module("X = open\nopen = 1"),
    "names_a_builtin_of_an_inner_comprehension": in_kernel("z = [1 for eval in ()]\neval('1')"),
    "names_what_the_interpreter_leaves": in_kernel("np.save('/scratch/x', 1)"),
    "declares_another_encoding": "# coding: utf-7\n" + in_module("X = 1"),
    "hides_by_an_odd_line_end": in_module("X = 1 # \x0c\n"),
    "hides_by_a_carriage_return": in_module("X = 1 # \rimport os"),
    "names_look_like_others": in_kernel("\uff47etattr(torch, 'save')"),
    # Changing PyTorch, Triton, or how a kernel is read
    "patches_torch": in_kernel("torch.empty = torch.zeros"),
    "patches_a_function": in_kernel("kernel.calls = 1"),
    "patches_a_jit_function": in_kernel("_copy.fn = kernel"),
    "patches_by_setattr": in_kernel("setattr(torch, 'empty', None)"),
    "rebinds_torch": in_kernel("torch = x"),
    "rebinds_a_jit_function": in_kernel("_copy = x"),
    "rebinds_in_a_parameter": in_module("def f(tl):\n    return tl"),
    "defines_twice": in_module("def kernel(x):\n    return x"),
    "hides_a_kernel_in_a_docstring": in_device('"""\ndef _copy(x, y, n, BLOCK):\n    import os\n"""', "tl.store(y, 0)"),
    "hides_a_kernel_in_a_continued_string": in_device("tl.static_assert(True, 'a\\\ndef _copy(x):')", "tl.store(y, 0)"),
    "hides_a_kernel_in_a_decorator": in_module(
        '@triton.heuristics({"A": lambda a: """\ndef f(x):\n    pass"""})\n'
        "@triton.jit\ndef f(x, A):\n    tl.store(x, 0)"
    ),
    "replaces_the_interpreters_names": in_module("interpreter_semantic = 1"),
    "replaces_the_interpreters_comparison": in_module("def _InterpreterComparison(a, b=None):\n    return a"),
    "swaps_the_compilers_output": in_kernel("_copy[(1,)](x, y, rows, BLOCK=8, ir_override='a.ptx')"),
    "links_a_library": in_kernel("_copy[(1,)](x, y, rows, BLOCK=8, extern_libs=[('a', '/scratch/a.bc')])"),
    "gives_options_by_a_parameters_name": in_module(
        "@triton.jit\ndef f(x, ptx_options: tl.constexpr):\n    tl.store(x, 0)"
    ),
    "gives_options_by_a_dict": in_kernel("_copy[(1,)](x, y, rows, **{'BLOCK': 8})"),
    "gives_options_in_two_steps": in_kernel("f = _copy[(1,)]\nf(x, y, rows, BLOCK=8, ptx_options='-O0')"),
    "gives_triton_internals": in_device("tl.store(y, 0, _semantic=None)"),
    "gives_options_by_an_alias": in_kernel("f = _copy", "g = f[(1,)]", "g(x, y, rows, BLOCK=8, ptx_options='-O0')"),
    "gives_options_in_a_helper": in_module("def f(k, x):\n    k[(1,)](x, x, 1, BLOCK=8)"),
    "gives_a_kernel_to_a_helper": in_kernel("def f(k):\n    return k", "f(_copy)"),
    # Keeping results from call to call
    "keeps_a_list": in_module("SEEN = []"),
    "keeps_a_dict": in_module("SEEN = {}"),
    "keeps_a_tensor": in_module("SCRATCH = torch.empty(8)"),
    "keeps_in_a_default": in_module("def f(x, seen=[]):\n    seen.append(x)"),
    "keeps_in_a_global": in_kernel("global SEEN\nSEEN = x"),
    "keeps_in_an_outer_function": in_kernel("def f():\n    nonlocal x\n    x = 1"),
    "keeps_in_a_class": in_module("class Cache:\n    pass"),
    "keeps_in_a_cache": in_module("import functools\n@functools.cache\ndef f(x):\n    return x"),
    "keeps_in_an_attribute": in_kernel("x.seen = 1"),
    "keeps_by_identity": in_kernel("z = id(x)"),
    # Computing with a library
    "multiplies_matrices": in_kernel("torch.matmul(x, w, out=y)"),
    "uses_functional": in_kernel("torch.nn.functional.linear(x, w)"),
    "uses_a_method": in_kernel("y.copy_(x.softmax(-1))"),
    "uses_a_method_by_name": in_kernel("f = x.matmul\nf(w)"),
    "uses_the_aten_namespace": in_kernel("torch.ops.aten.mm(x, w)"),
    "uses_an_operator": in_kernel("z = x @ w"),
    "uses_an_alias": f"from torch import matmul as multiply\n{in_kernel('multiply(x, w)')}",
    "assigns_into_a_tensor": in_kernel("y[:] = x"),
    "deletes_an_element": in_kernel("del x"),
    "uses_compile": in_kernel("torch.compile(lambda a: a)(x)"),
    "autotunes": in_module("@triton.autotune(configs=[], key=[])\n@triton.jit\ndef f(x):\n    tl.store(x, 0)"),
    # Telling one way of running from another
    "asks_for_a_device": in_kernel("z = x.is_cuda"),
    "asks_for_a_devices_type": in_kernel("if x.device.type == 'a':\n    return"),
    "names_a_device": in_kernel("z = torch.empty(8, device='cpu')"),
    "allocates_where_it_may": in_kernel("z = torch.empty(8)"),
    "compares_devices": in_kernel("z = x.device == w.device"),
    "compares_devices_by_name": in_kernel("d = x.device", "z = d == w.device"),
    "names_a_device_in_parts": in_kernel("d = 'c' + 'pu'", "z = torch.empty(8, device=d)"),
    "names_a_device_by_a_launch_parameter": in_kernel("z = torch.empty(8, device=LAUNCH_BLOCK)"),
    "names_a_device_or_another": in_kernel("d = x.device", "if rows > 1:\n    d = 'a'", "z = torch.empty(8, device=d)"),
    "shows_text_in_a_condition": in_device("tl.static_assert(msg='a', cond=len(f'{n}') == 1)"),
    "asks_torch_for_devices": in_kernel("z = torch.cuda.is_available()"),
    "asks_for_the_version": in_kernel("z = triton.__version__"),
    "asks_for_a_type": in_kernel("z = type(_copy)"),
    "asks_what_a_launch_returns": in_kernel("z = _copy[(1,)](x, y, rows, BLOCK=8)"),
    "asks_whether_objects_are_one": in_device("a = tl.program_id(0)", "if a is tl.program_id(0):\n    tl.store(y, 0)"),
    "prints_a_value_into_a_length": in_device("a = len(f'{n}')", "tl.store(y, a)"),
    "formats_a_tensor": in_kernel("z = '%s' % x"),
    "catches_what_differs": in_kernel("try:\n    z = 1\nexcept ValueError:\n    z = 2"),
    "reads_a_clock": in_kernel("import time"),
    "waits_for_a_stream": in_kernel("torch.cuda.synchronize()"),
    "captures_a_graph": in_kernel("g = torch.cuda.CUDAGraph()"),
    "starts_a_thread": in_module("import threading"),
    "waits_for_another": in_module("async def f(x):\n    await x"),
    "yields": in_kernel("yield x"),
    # Within kernels, which the interpreter executes as Python
    "prints_in_a_kernel": in_device("print('a')"),
    "imports_in_a_kernel": in_device("import os"),
    "opens_in_a_kernel": in_device("open('/x')"),
    "walks_in_a_kernel": in_device("a = n.__class__"),
    "reaches_a_handle": in_device("a = tl.load(x).handle"),
    "calls_host_code_in_a_kernel": in_module(
        "def host(x):\n    return x\n@triton.jit\ndef f(x):\n    tl.store(x, host(1))"
    ),
    "calls_a_parameter_in_a_kernel": in_device("tl.store(y, n(1))"),
    "writes_assembly": in_device("tl.inline_asm_elementwise('', '', [], tl.int32, True, 1)"),
    "uses_torch_in_a_kernel": in_device("torch.zeros(8)"),
    "uses_tritons_insides_in_a_kernel": in_device("tl.core.builtin(1)"),
    "defines_a_function_in_a_kernel": in_device("f = lambda a: a"),
    "changes_an_object_in_a_kernel": in_device("tl.exp = tl.log"),
    "comprehends_in_a_kernel": in_device("a = [b for b in (1, 2)]"),
    # Prepare is free to compute and no more
    "opens_in_prepare": in_prepare("return open('/x')"),
    "saves_in_prepare": in_prepare("torch.save(w, '/scratch/x')", "return w"),
    "keeps_in_prepare": in_prepare("w.kept = 1", "return w"),
    "hooks_in_prepare": in_prepare("w.register_hook(lambda g: g)", "return w"),
}

ACCEPTED = {
    "the_plain_form": in_module(""),
    "a_docstring_and_comments": f'"""A kernel.\n\nTwo lines, 100 % plain {{}}."""\n# a comment\n{in_module("X = 1")}',
    "future_annotations": f"from __future__ import annotations\n{in_module('')}",
    "names_from_modules": in_module("from triton import cdiv, next_power_of_2\nfrom math import sqrt, pi"),
    "constants": in_module(
        "EPS: tl.constexpr = 1e-5\nSIZES = (16, 32, 2 ** 6)\nLOG2E: tl.constexpr = math.log2(math.e)"
    ),
    "a_constexpr_global": in_module("EPS = tl.constexpr(-1e30)\nTYPE = tl.float32"),
    "a_tuned_constant": in_module("WARPS = LAUNCH_num_warps if LAUNCH_BLOCK > 32 else 1"),
    "annotations": in_module("def f(x: torch.Tensor, n: int | None = None) -> tuple[int, ...]:\n    return (n, n)"),
    "shapes_and_strides": in_kernel("a, b = x.shape", "s = x.stride(0) * w.stride(-1) + x.numel() // x.size(1)"),
    "a_grid_lambda": in_kernel(
        "grid = lambda META: (triton.cdiv(rows, META['BLOCK']),)", "_copy[grid](x, y, rows, BLOCK=8)"
    ),
    "a_grid_function": in_kernel(
        "def grid(meta):\n    return (triton.cdiv(rows, meta['BLOCK']), 1)", "_copy[grid](x, y, rows, BLOCK=8)"
    ),
    "launch_options": in_kernel("_copy[(1, 2, 3)](x, y, rows, BLOCK=8, num_warps=LAUNCH_num_warps, num_stages=2)"),
    "two_launches_and_scratch": in_kernel(
        "z = torch.empty((rows, 4), device=x.device, dtype=torch.float32)", "_copy[(1,)](x, z, rows, BLOCK=8)"
    ),
    "a_device_in_a_variable": in_kernel("device = x.device", "z = torch.zeros(8, device=device)"),
    "other_allocations": in_kernel("z = torch.empty_like(x)", "u = x.new_zeros((4,))", "z.zero_()", "u.fill_(1.0)"),
    "views": in_kernel(
        "z = x.view(-1, 4).t().reshape(2, -1).transpose(0, 1)[None, :, 1:]", "u = x.unsqueeze(0).permute(1, 0)"
    ),
    "asserts_with_messages": in_kernel("assert x.is_contiguous(), f'strides {x.stride()} at {100}%'"),
    "raises": in_kernel("if rows < 1:\n    raise ValueError(f'{rows} rows')"),
    "loops_and_numbers": in_kernel(
        "total = 0",
        "for i in range(4):\n    total += i * 2\n    if total > 3:\n        break",
        "while total > 8:\n    total //= 2",
    ),
    "comprehensions": in_kernel("sizes = [s for s in x.shape if s > 1]", "most = max(size * 2 for size in sizes)"),
    "local_containers": in_kernel("launches = []", "launches.append(rows)", "meta = {'a': 1}", "z = meta.get('a', 2)"),
    "parameters_named_as_builtins": in_module("")
    .replace("kernel(x, w, y", "kernel(input, type, sum")
    .replace(")](x, y", ")](input, sum"),
    "helper_functions": in_module(
        "def blocks(n, size):\n    return triton.cdiv(n, size)\ndef twice(n):\n    return blocks(n, 2) * 2"
    ),
    "dtype_choices": in_kernel(
        "wide = tl.float32 if x.dtype == torch.bfloat16 else tl.float64", "most = torch.finfo(x.dtype).max"
    ),
    "text_choices": in_kernel("kind = 'silu' if rows > 1 else 'gelu'", "z = kind == 'silu'"),
    "none": in_kernel("bias = None", "if bias is None:\n    pass"),
    "a_dot": in_device(
        "r = tl.arange(0, 16)",
        "acc = tl.zeros((16, 16), dtype=tl.float32)",
        "for k in tl.range(0, n, 16, num_stages=2):",
        "    a = tl.load(x + r[:, None] * n + k + r[None, :], mask=r[None, :] < n, other=0.0)",
        "    acc = tl.dot(a, tl.trans(a), acc, input_precision='ieee')",
        "tl.store(y + r[:, None] * 16 + r[None, :], acc.to(y.dtype.element_ty))",
    ),
    "static_loops_and_asserts": in_device(
        '"""Adds."""',
        "tl.static_assert(BLOCK >= 16, 'at least 16')",
        "s = 0.0",
        "for i in tl.static_range(4):\n    s += tl.load(x + i)",
        "tl.store(y, s)",
    ),
    "atomics_and_while": in_device(
        "i = 0", "while i < n:\n    tl.atomic_add(y + i, 1.0, sem='relaxed')\n    i += BLOCK"
    ),
    "reductions": in_device(
        "a = tl.load(x + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n, other=-float('inf'))",
        "m = tl.max(a, axis=0)",
        "e = tl.exp(a - m)",
        "tl.store(y, tl.sum(e, 0) / math_free(e) if BLOCK > 1 else m)",
    ).replace("math_free(e)", "tl.sqrt(m)"),
    "device_helpers": in_module(
        "@triton.jit\ndef _add(a, b):\n    return a + b\n@triton.jit\ndef _sum(x, y, BLOCK: tl.constexpr):\n"
        "    a = tl.load(x + tl.arange(0, BLOCK))\n    tl.store(y, tl.reduce(a, 0, _add))\n"
        "    tl.store(y + 1, _add(1.0, 2.0))"
    ),
    "a_choice_by_constexpr": in_device(
        "if BLOCK > 16 and n > 3:\n    tl.store(y, 1)\nelif BLOCK == 8:\n    return\nelse:\n    tl.store(y, 2)"
    ),
    "an_optional_pointer": in_module(
        "@triton.jit\ndef f(x, b, HAS_B: tl.constexpr):\n    if b is not None:\n        tl.store(x, tl.load(b))"
    ),
    "jit_options": in_module("@triton.jit(do_not_specialize=['n'], noinline=True)\ndef f(x, n):\n    tl.store(x, n)"),
    "heuristics": in_module(
        "@triton.heuristics({'EVEN': lambda args: args['n'] % args['BLOCK'] == 0})\n@triton.jit\n"
        "def f(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):\n    tl.store(x, n)"
    ),
    "prepare_repacks": in_prepare(
        "scale = w.abs().amax(-1, keepdim=True)",
        "q = torch.round(w / scale).to(torch.int8)",
        "return q.t().contiguous(), scale",
    ),
    "prepare_fills": in_prepare(
        "out = torch.zeros((8, 8), dtype=w.dtype, device=w.device)", "out[: w.shape[0]] = w[:8]", "return out"
    ),
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(source: str) -> None:
    assert _forbidden_in(source)


@pytest.mark.parametrize("source", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts(source: str) -> None:
    assert _forbidden_in(source) == []


def test_says_all_that_is_wrong_with_lines() -> None:
    with pytest.raises(SourceRefused) as refused:
        refuse_source(TASK, _candidate(in_kernel("z = x.softmax(-1)", "open('/x')")))
    assert refused.value.reason is Reason.FORBIDDEN_SYMBOL
    message = str(refused.value)
    assert "line 11: .softmax in host code of the kernel" in message
    assert "line 12: open in host code of the kernel" in message


def test_library_ops_are_for_prepare_alone() -> None:
    packing = "def pack(w):\n    return shared(w)\ndef shared(w):\n    return w.exp()\n"
    source = in_module(packing).replace("y, rows):", "y, prepared, rows):")
    assert _forbidden_in(source) == []
    assert _forbidden_in(source.replace(LAUNCH, f"shared(x)\n    {LAUNCH}"))
    heuristics = "@triton.heuristics({'BLOCK': lambda args: shared(args['x'])})\n@triton.jit"
    assert _forbidden_in(source.replace("@triton.jit", heuristics))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"{IMPORTS}X = 1", "no function `def kernel"),
        (
            in_module("").replace("x, w, y, rows):", "x, y, rows):"),
            "kernel takes 3 arguments and gets 4: x, w, y, rows",
        ),
        (
            in_module("").replace("def kernel", "@triton.jit\ndef kernel").replace(LAUNCH, "tl.store(y, 0)"),
            "is a @triton.jit",
        ),
        ("def kernel(x:\n", "line 1: "),
        ("x = 1\0", "line 1: "),
        ("X = " + "-" * 100_000 + "1", "."),
        ("X = " + "1+" * 90_000 + "1", "."),
    ],
    ids=["no_entry", "arguments", "jit_entry", "syntax", "null", "deep", "wide"],
)
def test_what_is_no_such_module_does_not_build(source: str, message: str) -> None:
    with pytest.raises(SourceRefused, match=message) as refused:
        refuse_source(TASK, _candidate(source))
    assert refused.value.reason in (Reason.BUILD_FAILED, Reason.FORBIDDEN_SYMBOL)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_text_is_judged(text: str) -> None:
    try:
        refuse_source(TASK, _candidate(text))
    except SourceRefused as refusal:
        message = str(refusal)
    else:
        message = "accepted"
    assert message


def _forbidden_in(source: str) -> list[Finding]:
    return find_forbidden(read_module(source), _candidate(source))


def _candidate(source: str) -> Candidate:
    return Candidate(
        language=LanguageName.TRITON,
        source=source,
        prepare="pack" if "def pack(" in source else None,
        launch_parameters={"BLOCK": 64, "num_warps": 4},
    )


TASK = KernelTask(
    op="scale",
    site="tests.scale",
    level=SiteLevel.LEAF,
    reference="def reference(x, w):\n    return x\n",
    inputs=(
        InputSpec(
            name="x", element_type=ElementType.FLOAT32, shape=("rows", 8), dim_order=(0, 1), role=InputRole.ACTIVATION
        ),
        InputSpec(name="w", element_type=ElementType.FLOAT32, shape=(8,), dim_order=(0,), role=InputRole.PARAMETER),
    ),
    outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 8), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 2}, calls_per_hour=1.0),),
    error_bound=ErrorBound(scaled_error=1e-6),
    device_id="cpu-test",
)
