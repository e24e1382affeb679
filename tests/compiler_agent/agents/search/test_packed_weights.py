"""Kernels that keep their weights packed: what `prepare` writes, and what the kernel makes of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from compiled_kernel import CompiledKernel, activation, make_task, parameter, tensor, worst_error_in_bounds
from hypothesis import given, settings
from hypothesis import strategies as st

from candidates.inputs import Distribution, draw_inputs
from candidates.serving_build.runtime import can_be_kept
from candidates.task import InputSpec, KernelTask
from candidates.weight_formats import BLOCK, WeightFormat
from compiler_agent.agents.search.cpp_space import cpp_space
from compiler_agent.agents.search.emit_cpp import emit_candidate
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.staging import write_program

EXACT = (WeightFormat.Q4_1, WeightFormat.Q8_0)
PACKED = Schedule(weights="packed")
SCHEDULES = (
    PACKED,
    Schedule(weights="packed", vector_width=8, row_tile=4, column_tile=4),
    Schedule(weights="packed", row_tile=6, column_tile=1, prefetch_bytes=1024),
    Schedule(weights="packed", row_tile=2, column_tile=4),
)
ROWS = [{"tokens": 1}, {"tokens": 3}, {"tokens": 13}]


def weight(name: str, columns: int, depth: int, stored_as: WeightFormat | None) -> InputSpec:
    return parameter(name, columns, depth).model_copy(update={"stored_as": stored_as})


def linear(stored_as: WeightFormat | None, columns: int, depth: int) -> KernelTask:
    reference = """
def reference(x, w):
    return torch.nn.functional.linear(x, w)
"""
    inputs = [activation("x", "tokens", depth), weight("w", columns, depth, stored_as)]
    return make_task("linear", reference, inputs, [tensor("y", "tokens", columns)], ROWS)


def mlp(formats: tuple[WeightFormat | None, ...]) -> KernelTask:
    reference = """
def reference(x, gate, up, down):
    gated = torch.nn.functional.silu(torch.nn.functional.linear(x, gate)) * torch.nn.functional.linear(x, up)
    return torch.nn.functional.linear(gated, down)
"""
    sizes = {"gate": (160, 96), "up": (160, 96), "down": (96, 160)}
    weights = [weight(name, *size, kept) for (name, size), kept in zip(sizes.items(), formats, strict=True)]
    return make_task("mlp", reference, [activation("x", "tokens", 96), *weights], [tensor("y", "tokens", 96)], ROWS)


def program_of(task: KernelTask) -> Program:
    program = write_program(task)
    assert not isinstance(program, NoProgram)
    return program


def compiled(task: KernelTask, schedule: Schedule, folder: Path) -> CompiledKernel:
    return CompiledKernel(task, emit_candidate(program_of(task), schedule), folder)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stored_as", list(WeightFormat))
def test_packed_linear_is_right_at_odd_sizes(stored_as: WeightFormat, schedule: Schedule, tmp_path: Path) -> None:
    for columns, depth in ((37, 96), (192, 32)):
        task = linear(stored_as, columns, depth)
        assert worst_error_in_bounds(task, compiled(task, schedule, tmp_path)) < 1


def test_packed_linear_errs_no_more_than_one_of_float32_weights(tmp_path: Path) -> None:
    task = linear(WeightFormat.Q4_1, 576, 576)
    packed, plain = (worst_error_in_bounds(task, compiled(task, each, tmp_path)) for each in (PACKED, Schedule()))
    assert packed < 1.5 * plain < 1


@pytest.mark.parametrize(
    "formats",
    [
        (WeightFormat.Q4_1,) * 3,
        (WeightFormat.Q4_1, WeightFormat.Q8_0, WeightFormat.BFLOAT16),
        (None, WeightFormat.Q8_0, None),
    ],
)
def test_block_of_several_products_keeps_each_weight_in_its_own_format(
    formats: tuple[WeightFormat | None, ...], tmp_path: Path
) -> None:
    task = mlp(formats)
    kernel = compiled(task, PACKED, tmp_path)
    assert worst_error_in_bounds(task, kernel) < 1
    inputs = draw_inputs(task, task.workloads[0], Distribution.NORMAL, np.random.default_rng(0))
    prepared = kernel.prepare(inputs)
    assert prepared is not None
    assert prepared.numel() == pytest.approx(task.kept_parameter_bytes(), abs=3 * 64 + 128)


def test_weights_are_packed_first_where_they_have_a_format_and_never_where_they_have_none() -> None:
    assert cpp_space(program_of(linear(WeightFormat.Q4_1, 64, 64))).choices["weights"] == ("packed", "panels", "rows")
    assert cpp_space(program_of(linear(WeightFormat.BFLOAT16, 64, 31))).choices["weights"][0] == "packed"
    assert cpp_space(program_of(linear(None, 64, 64))).choices["weights"] == ("panels", "rows")


def test_weights_whose_blocks_lie_across_the_depth_are_not_packed() -> None:
    reference = """
def reference(x, w):
    return torch.matmul(x, w)
"""
    inputs = [activation("x", "tokens", 64), weight("w", 64, 96, WeightFormat.Q4_1)]
    task = make_task("matmul", reference, inputs, [tensor("y", "tokens", 96)], ROWS)
    assert cpp_space(program_of(task)).choices["weights"] == ("panels",)


COLUMNS, DEPTH = 20, 64


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[WeightFormat, CompiledKernel]:
    folder = tmp_path_factory.mktemp("packed")
    return {kept: compiled(linear(kept, COLUMNS, DEPTH), PACKED, folder) for kept in EXACT}


def unpacked(stored_as: WeightFormat, prepared: torch.Tensor) -> np.ndarray:
    """[columns, depth]: the weights that `prepare` wrote under PACKED: one panel of 2 x 16 output features."""
    halves = 2 if stored_as is WeightFormat.Q4_1 else 1
    code_bytes = stored_as.size_bytes(BLOCK) - 2 * halves
    blocks = []
    for block in prepared.numpy()[: 32 * DEPTH // BLOCK * stored_as.size_bytes(BLOCK)].reshape(DEPTH // BLOCK, -1):
        codes, scales = block[: 32 * code_bytes], block[32 * code_bytes :].view(np.float16).astype(np.float32)
        if stored_as is WeightFormat.Q4_1:
            words = codes.view(np.uint32).reshape(4, 32)
            eight = np.stack([(words >> np.uint32(4 * place)) & np.uint32(15) for place in range(8)], axis=1)
            numbers = (eight.reshape(32, 32) ^ 8).astype(np.float32)
            blocks.append(scales[:32] * numbers + scales[32:])
        else:
            blocks.append(scales * codes.view(np.int8).reshape(32, 32).astype(np.float32))
    return np.concatenate(blocks).T[:COLUMNS]


def weights_on_grid(stored_as: WeightFormat, seed: int) -> torch.Tensor:
    """Codes of all kinds: few of them used, blocks of one value, scales from the smallest float16 to large ones."""
    rng = np.random.default_rng(seed)
    blocks = (COLUMNS, DEPTH // BLOCK, 1)
    exponent = rng.integers(-20, 4, blocks)
    scale = (rng.uniform(1, 2, blocks) * 2.0**exponent).astype(np.float16).astype(np.float32)
    shape = (*blocks[:2], BLOCK)
    if stored_as is WeightFormat.Q8_0:
        largest = rng.integers(0, 128, blocks)
        return torch.from_numpy(
            (scale * rng.integers(-largest, largest + 1, shape)).astype(np.float32).reshape(COLUMNS, -1)
        )
    first = rng.integers(0, 16, blocks)
    last = rng.integers(first, 16)
    codes = np.where(first < last, rng.integers(first, last + 1, shape), 0).astype(np.float32)
    # The smallest and the largest of the range are there, and the minimum is not far smaller than the scale.
    codes[..., :1], codes[..., 1:2] = np.where(first < last, first, 0), np.where(first < last, last, 0)
    minimum = (scale * rng.uniform(-12, -1, blocks)).astype(np.float16).astype(np.float32)
    return torch.from_numpy((scale * codes + minimum).reshape(COLUMNS, -1))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), stored_as=st.sampled_from(EXACT))
def test_packing_keeps_every_bit_of_weights_on_the_grid(
    seed: int, stored_as: WeightFormat, kernels: dict[WeightFormat, CompiledKernel]
) -> None:
    weights = weights_on_grid(stored_as, seed)
    assert can_be_kept(weights, stored_as)
    prepared = kernels[stored_as].prepare({"w": weights})
    assert prepared is not None
    np.testing.assert_array_equal(unpacked(stored_as, prepared), weights.numpy())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), stored_as=st.sampled_from(EXACT), place=st.integers(0, COLUMNS * DEPTH - 1))
def test_block_off_the_grid_is_refused_by_the_runtime_and_makes_its_output_nan(
    seed: int, stored_as: WeightFormat, place: int, kernels: dict[WeightFormat, CompiledKernel]
) -> None:
    weights = weights_on_grid(stored_as, seed)
    weights.view(-1)[place] = weights.view(-1)[place] * 1.0009765 + 1e-3
    column = place // DEPTH
    is_kept = can_be_kept(weights, stored_as)
    outputs = kernels[stored_as]({"x": torch.ones(3, DEPTH), "w": weights}, {"tokens": 3})["y"]
    assert torch.isnan(outputs[:, column]).all() == (not is_kept)
    others = [each for each in range(COLUMNS) if each != column]
    torch.testing.assert_close(
        outputs[:, others], (weights.double().sum(1)[others]).float().expand(3, -1), rtol=1e-4, atol=1e-3
    )
