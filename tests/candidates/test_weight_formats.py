"""Weight formats: what is drawn for them, what they change of a task, and which matrices of a model have one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from candidates.error_bound import derive_error_bound
from candidates.extraction import Obstacle, allow_bfloat16_weights, extract_task
from candidates.inputs import Distribution, draw_inputs
from candidates.judge.admission import find_weaknesses
from candidates.judge.outputs import Fault, compare_results
from candidates.language import KernelLanguage
from candidates.languages.cpp import CppLanguage
from candidates.languages.triton import TritonLanguage
from candidates.pull_requests import kernel_check
from candidates.reference import run_oracle, run_reference
from candidates.serving_build.runtime import can_be_kept
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.weight_formats import WeightFormat, drawn_for
from traces.capture import capture_calls, find_model_sites
from traces.replay.step import EngineStep
from traces.served_model import open_model

EXACT = (WeightFormat.Q4_1, WeightFormat.Q8_0)


def linear(stored_as: WeightFormat | None) -> KernelTask:
    weight = InputSpec(
        name="w", element_type="float32", shape=(48, 64), dim_order=(0, 1), role="parameter", stored_as=stored_as
    )
    x = InputSpec(name="x", element_type="float32", shape=("rows", 64), dim_order=(0, 1), role="activation")
    task = KernelTask(
        op="linear",
        site="tests.linear",
        level="leaf",
        reference="def reference(x, w):\n    return torch.nn.functional.linear(x, w)\n",
        inputs=(x, weight),
        outputs=(TensorSpec(name="y", element_type="float32", shape=("rows", 48), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 3}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-test",
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


def drawn_weight(task: KernelTask, seed: int) -> torch.Tensor:
    return draw_inputs(task, task.workloads[0], Distribution.NORMAL, np.random.default_rng(seed))["w"]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.floats(1e-5, 1e3), stored_as=st.sampled_from(EXACT))
def test_every_value_that_is_drawn_lies_on_the_grid(seed: int, scale: float, stored_as: WeightFormat) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((40, 320), dtype=np.float32) * np.float32(scale)
    drawn = drawn_for(stored_as, values, rng)
    assert drawn.dtype == np.float32
    assert can_be_kept(torch.from_numpy(drawn), stored_as)
    assert not can_be_kept(torch.from_numpy(values), stored_as)


@pytest.mark.parametrize("stored_as", EXACT)
def test_judge_draws_blocks_that_use_some_of_the_codes_only(stored_as: WeightFormat) -> None:
    """A kernel that relies on the outermost codes must fail, as it would on a model's weights."""
    values = np.random.default_rng(0).standard_normal((1000, 32), dtype=np.float32)
    drawn = drawn_for(stored_as, values, np.random.default_rng(1))
    spread = np.ptp(drawn, axis=1) / np.ptp(values, axis=1)
    assert 0 < np.mean(spread < 0.9) < 0.1


def test_one_bit_off_the_grid_is_seen() -> None:
    weight = drawn_weight(linear(WeightFormat.Q4_1), 0)
    weight[47, 63] = torch.nextafter(weight[47, 63], torch.tensor(9.0))
    assert not can_be_kept(weight, WeightFormat.Q4_1)
    assert not can_be_kept(torch.full((2, 32), torch.nan), WeightFormat.Q8_0)


def test_packed_parameters_are_what_a_call_moves() -> None:
    bytes_of = {kept: linear(kept).kept_parameter_bytes() for kept in (None, *WeightFormat)}
    assert bytes_of == {None: 48 * 64 * 4, "q4_1": 48 * 2 * 20, "q8_0": 48 * 2 * 34, "bfloat16": 48 * 64 * 2}
    task = linear(WeightFormat.Q4_1)
    assert task.moved_bytes(task.workloads[0]) == 48 * 2 * 20 + 3 * 4 * (64 + 48)
    assert task.parameter_bytes() == 48 * 64 * 4


def test_a_task_without_a_format_says_nothing_of_it() -> None:
    assert "stored_as" not in linear(None).model_dump_json()
    kept = linear(WeightFormat.Q8_0)
    assert kept.id != linear(None).id
    assert KernelTask.model_validate_json(kept.model_dump_json()) == kept


@pytest.mark.parametrize(
    ("change", "message"),
    [({"shape": (48, 63)}, "blocks"), ({"dim_order": (1, 0)}, "blocks"), ({"role": "activation"}, "no float32 param")],
)
def test_only_float32_parameters_of_whole_blocks_have_an_exact_format(change: dict[str, object], message: str) -> None:
    document = linear(WeightFormat.Q4_1).inputs[1].model_dump() | change
    with pytest.raises(ValueError, match=message):
        InputSpec.model_validate(document)


@pytest.mark.parametrize("stored_as", EXACT)
def test_exact_formats_leave_the_bound_as_tight_as_pytorch_is(stored_as: WeightFormat) -> None:
    task = linear(stored_as)
    assert task.error_bound.scaled_error < 3 * linear(None).error_bound.scaled_error
    assert find_weaknesses(task) == []


def test_bfloat16_variant_has_room_for_rounded_weights_and_for_no_more() -> None:
    task = linear(WeightFormat.BFLOAT16)
    assert find_weaknesses(task) == []
    inputs = draw_inputs(task, task.workloads[0], Distribution.NORMAL, np.random.default_rng(0))
    exact = run_oracle(task, inputs)
    for dtype, is_right in ((torch.bfloat16, True), (torch.float8_e5m2, False)):
        results = run_reference(task, inputs | {"w": inputs["w"].to(dtype).float()})
        assert isinstance(compare_results(task, inputs, exact, results), Fault) is not is_right
        plain = linear(None)
        assert isinstance(compare_results(plain, inputs, exact, results), Fault)


@pytest.mark.parametrize("language", [CppLanguage(), TritonLanguage()])
def test_an_author_is_told_what_may_be_relied_on(language: KernelLanguage) -> None:
    assert "scale * code + minimum" in language.brief(linear(WeightFormat.Q4_1))
    assert "may be kept" not in language.brief(linear(None))


@pytest.mark.parametrize("stored_as", EXACT)
def test_check_of_a_pull_request_draws_on_the_grid(stored_as: WeightFormat) -> None:
    spec = linear(stored_as).inputs[1].model_dump(mode="json")
    assert can_be_kept(kernel_check.draw(spec, {}, "normal", np.random.default_rng(0)), stored_as)


Extract = Callable[[bool], dict[str, KernelTask | Obstacle]]


@pytest.fixture(scope="module")
def extract(tmp_path_factory: pytest.TempPathFactory) -> Extract:
    """Of a Llama: down projections and one of two up projections are Q4_1, the embedding is Q8_0."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=101,
        tie_word_embeddings=True,
    )
    model, rng = LlamaForCausalLM(config), np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            stored_as = WeightFormat.Q8_0 if "embed" in name else WeightFormat.Q4_1
            if "embed" in name or "down_proj" in name or "0.mlp.up_proj" in name:
                parameter.copy_(torch.from_numpy(drawn_for(stored_as, parameter.numpy(), rng)))
    folder, home = tmp_path_factory.mktemp("models") / "llama", tmp_path_factory.mktemp("home")
    model.save_pretrained(folder)
    served = open_model(str(folder), home)
    step = EngineStep(
        prefill_tokens=0,
        prefill_context=0,
        decode_batch=1,
        decode_context=9,
        count=10.0,
        duration_s=1.0,
        share_by_class={"chat": 1.0},
    )

    def run(bfloat16_weights: bool) -> dict[str, KernelTask | Obstacle]:
        fake, module = served.fake_module(), served.load()
        found = {}
        for site in capture_calls(fake, find_model_sites(fake), [step], span_s=3600.0):
            if site.site.op in ("Linear[64,32]", "Linear[32,64]", "Linear[32,101]", "LlamaMLP", "LlamaRMSNorm"):
                found[site.site.op] = extract_task(
                    module,
                    site,
                    time_us=lambda _: 1.0,
                    device_id="cpu-0",
                    threads=1,
                    keep=2,
                    bfloat16_weights=bfloat16_weights,
                )
        return found

    return run


def formats_in(tasks: dict[str, KernelTask | Obstacle], op: str) -> dict[str, WeightFormat | None]:
    task = tasks[op]
    assert isinstance(task, KernelTask), task
    return {spec.name: spec.stored_as for spec in task.inputs if spec.role == "parameter"}


def test_extraction_knows_a_format_where_every_instance_is_on_its_grid(extract: Extract) -> None:
    tasks = extract(False)
    assert formats_in(tasks, "Linear[64,32]") == {"weight": "q4_1"}
    assert formats_in(tasks, "Linear[32,64]") == {"weight": None}  # gate and up, one instance of four on the grid
    assert formats_in(tasks, "Linear[32,101]") == {"weight": "q8_0"}
    in_block = formats_in(tasks, "LlamaMLP")
    assert [in_block[name] for name in sorted(in_block)] == ["q4_1", None, None]
    assert formats_in(tasks, "LlamaRMSNorm") == {"weight": None}


def test_matrices_without_a_format_may_be_bfloat16_only_on_demand(extract: Extract) -> None:
    tasks = extract(True)
    assert formats_in(tasks, "Linear[32,64]") == {"weight": "bfloat16"}
    assert formats_in(tasks, "Linear[64,32]") == {"weight": "q4_1"}
    assert formats_in(tasks, "LlamaRMSNorm") == {"weight": None}
    plain, rounded = linear(None), allow_bfloat16_weights(linear(None))
    assert rounded is not None
    assert derive_error_bound(rounded).scaled_error > 100 * plain.error_bound.scaled_error
    assert allow_bfloat16_weights(linear(WeightFormat.Q8_0)) is None
