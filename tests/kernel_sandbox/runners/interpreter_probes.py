"""Small kernels in Triton's repaired interpreter, run by test_interpreter.py in a process of their own."""

import json
import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
sys.path.insert(0, str(Path(__file__).parents[3] / "kernel_sandbox" / "runners"))

import interpreter_launches
import interpreter_races
import interpreter_reductions
import interpreter_repairs
import torch
import triton
import triton.language as tl


@triton.jit
def sums(x, y, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr):
    place = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    total = tl.sum(tl.load(x + place), axis)
    tl.store(y + tl.arange(0, total.shape[0]), total)


@triton.jit
def all_sums(x, y):
    values = tl.load(x + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :])
    tl.store(y, tl.sum(values))
    tl.store(y + 1 + tl.arange(0, 4)[:, None], tl.sum(values, 1, keep_dims=True))


@triton.jit
def cumulative(x, y, reverse: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0, reverse=reverse))


@triton.jit
def products(a, b, y, precision: tl.constexpr):
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y + place, tl.dot(tl.load(a + place), tl.load(b + place), input_precision=precision))


@triton.jit
def is_float32(x, y, factor):
    product = tl.load(x) * factor
    tl.store(y, product.dtype == tl.float32)


@triton.jit
def loop_indices(y, count):
    for i in range(count):
        tl.store(y + i, (i + 1).to(tl.float32) / 2)


@triton.jit
def masked(x, y):
    i = tl.arange(0, 4)
    tl.store(y + i, tl.load(x + i, mask=i < 2))


@triton.jit
def rounded(x, y):
    tl.store(y, tl.load(x).to(tl.float16, fp_downcast_rounding="rtne"))


@triton.jit
def first(a, i, b, j):
    return tl.where((b > a) | ((a == b) & (j < i)), b, a), tl.where((b > a) | ((a == b) & (j < i)), j, i)


@triton.jit
def first_largest(x, y):
    i = tl.arange(0, 8)
    value, index = tl.reduce((tl.load(x + i), i), 0, first)
    tl.store(y, value)
    tl.store(y + 1, index)


@triton.jit
def larger_by_branch(a, b):
    larger = a
    if b > a:
        larger = b
    return larger


@triton.jit
def cumulative_by_branch(x, y):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, larger_by_branch))


@triton.jit
def compose(a, b, later_a, later_b):
    return a * later_a, b * later_a + later_b


@triton.jit
def recurrence(x, y):
    i = tl.arange(0, 8)
    _, states = tl.associative_scan((tl.load(x + i) * 0 + 2, tl.load(x + i)), 0, compose)
    tl.store(y + i, states)


@triton.jit
def writes_one_place(y):
    tl.store(y, tl.program_id(0))


@triton.jit
def writes_one_value(y):
    tl.store(y, 7)


@triton.jit
def reads_a_neighbour(y):
    i = tl.program_id(0)
    tl.store(y + i, tl.load(y + tl.maximum(i - 1, 0)) + 1)


@triton.jit
def adds_atomically(y):
    tl.atomic_add(y, tl.program_id(0))


@triton.jit
def scatters_twice(y):
    i = tl.arange(0, 4)
    tl.store(y + i // 2, i)


def main() -> None:
    interpreter_repairs.repair()
    interpreter_reductions.repair()
    interpreter_launches.repair()
    found: dict[str, object] = {}

    def run(name, kernel, y, *arguments, **constants):  # type: ignore[no-untyped-def]
        kernel[(1,)](*arguments, y, **constants)
        found[name] = y.double().tolist()

    ones = torch.ones(1, 256).bfloat16()
    run("sum_of_bfloat16", sums, torch.zeros(1).bfloat16(), ones, rows=1, columns=256, axis=1)
    run("sum_down_columns", sums, torch.zeros(2), torch.full((128, 2), 0.1), rows=128, columns=2, axis=0)
    run("all_sums", all_sums, torch.zeros(5), torch.arange(32.0))
    eight = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
    run("cumulative", cumulative, torch.zeros(8, dtype=torch.int64), eight.long(), reverse=False)
    run("cumulative_reversed", cumulative, torch.zeros(8), eight, reverse=True)
    run("cumulative_bfloat16", cumulative, torch.zeros(8).bfloat16(), eight.bfloat16(), reverse=False)
    near_one = torch.eye(16) * (1 + 2**-12)
    run("dot_tf32", products, torch.zeros(16, 16), near_one, torch.eye(16), precision="tf32")
    run("dot_ieee", products, torch.zeros(16, 16), near_one, torch.eye(16), precision="ieee")
    run("dot_bfloat16", products, torch.zeros(16, 16), (torch.eye(16) * 3).bfloat16(), torch.eye(16).bfloat16(),
        precision="tf32")  # fmt: skip
    is_float = torch.zeros(1, dtype=torch.bool)
    is_float32[(1,)](torch.ones(1).half(), is_float, 0.3)
    found["product_with_an_argument_is_float32"] = bool(is_float)
    indices = torch.zeros(3)
    loop_indices[(1,)](indices, 3)
    found["loop_indices"] = indices.tolist()
    run("masked", masked, torch.zeros(4), torch.ones(4))
    run("rounded_to_float16", rounded, torch.zeros(1).half(), torch.tensor([2047.9]))
    run("first_largest", first_largest, torch.zeros(2), torch.tensor([1.0, 5.0, 2.0, 5.0, 0.0, 5.0, 3.0, 4.0]))
    run("cumulative_by_branch", cumulative_by_branch, torch.zeros(8), eight)
    run("recurrence", recurrence, torch.zeros(8), eight)
    races = interpreter_races.RaceWatch()
    for kernel in (writes_one_place, writes_one_value, reads_a_neighbour, adds_atomically, scatters_twice):
        races.begin()
        kernel[(4,)](torch.zeros(8, dtype=torch.int32))
        found[kernel.__name__] = races.end()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
