"""What was read of somebody's documents is what is written: unknown fields, order and numbers included."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from suite_files import RMSNORM, RMSNORM_INPUTS, workload_line

from candidates.problems.documents import Correctness, Definition, Document, Evaluation, Solution, Trace

NAMES = st.text(min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(NAMES, children, max_size=3),
    max_leaves=6,
)
EXTRA = st.dictionaries(NAMES.map(lambda name: f"x-{name}"), JSON, max_size=3)


def shuffled(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Dicts with the required and some of the optional and of other fields, in any order."""
    known = st.fixed_dictionaries(required, optional=optional or {})
    merged = st.tuples(known, EXTRA).map(lambda parts: list((parts[0] | parts[1]).items()))
    return merged.flatmap(st.permutations).map(dict)


DTYPES = st.sampled_from(["float32", "float8_e4m3fn", "of tomorrow"])
TENSORS = shuffled({"shape": st.just(["n", "h"]) | st.none(), "dtype": DTYPES}, {"description": NAMES})
DEFINITIONS = shuffled(
    {
        "name": NAMES,
        "op_type": NAMES,
        "axes": st.fixed_dictionaries(
            {
                "n": shuffled({"type": st.just("var")}),
                "h": shuffled({"type": st.just("const"), "value": st.integers(0, 9999)}),
            }
        ),
        "inputs": st.dictionaries(NAMES.map(lambda name: f"in {name}"), TENSORS, max_size=3),
        "outputs": st.dictionaries(NAMES.map(lambda name: f"out {name}"), TENSORS, min_size=1, max_size=2),
        "reference": NAMES,
    },
    {"description": st.none() | NAMES, "tags": st.lists(NAMES, max_size=2)},
)
NUMBERS = st.integers(-1000, 1000) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
INPUTS = (
    shuffled({"type": st.just("random")})
    | shuffled({"type": st.just("scalar"), "value": NUMBERS})
    | shuffled({"type": st.just("safetensors"), "path": NAMES, "tensor_key": NAMES})
)
ERRORS = st.floats(0, allow_infinity=False) | st.just("Infinity")
EVALUATIONS = shuffled(
    {
        "status": st.sampled_from(["PASSED", "TIMEOUT", "REWARD_HACK"]),
        "environment": shuffled({"hardware": NAMES, "libs": st.dictionaries(NAMES, NAMES, max_size=2)}),
        "timestamp": NAMES,
    },
    {
        "log": NAMES,
        "correctness": st.none() | shuffled({"max_relative_error": ERRORS, "max_absolute_error": ERRORS}),
    },
)
TRACES = shuffled(
    {
        "definition": NAMES,
        "workload": shuffled(
            {
                "axes": st.dictionaries(NAMES, st.integers(0, 9999), max_size=2),
                "inputs": st.dictionaries(NAMES, INPUTS, max_size=3),
                "uuid": NAMES,
            }
        ),
    },
    {"solution": st.none() | NAMES, "evaluation": st.none() | EVALUATIONS},
)
SOLUTIONS = shuffled(
    {
        "name": NAMES,
        "definition": NAMES,
        "author": NAMES,
        "spec": shuffled(
            {"language": NAMES, "target_hardware": st.lists(NAMES, max_size=2), "entry_point": NAMES},
            {"dependencies": st.lists(NAMES, max_size=2), "binding": st.none() | NAMES},
        ),
        "sources": st.lists(shuffled({"path": NAMES, "content": NAMES}), max_size=2),
    }
)


def assert_kept(kind: type[Document], document: dict[str, Any]) -> None:
    text = kind.model_validate(document).model_dump_json()
    assert json.dumps(json.loads(text)) == json.dumps(document)
    assert kind.model_validate_json(text).model_dump_json() == text


@given(DEFINITIONS)
def test_definitions_are_kept(document: dict[str, Any]) -> None:
    assert_kept(Definition, document)


@given(TRACES)
def test_traces_are_kept(document: dict[str, Any]) -> None:
    assert_kept(Trace, document)


@given(SOLUTIONS)
def test_solutions_are_kept(document: dict[str, Any]) -> None:
    assert_kept(Solution, document)


def test_the_problems_of_these_tests_are_kept() -> None:
    assert_kept(Definition, RMSNORM)
    assert_kept(Trace, json.loads(workload_line("wl", {"batch": 1}, RMSNORM_INPUTS)))


def test_an_infinite_error_is_written_as_text() -> None:
    written = Correctness(max_relative_error=float("inf"), max_absolute_error=1.0).model_dump_json()
    assert written == '{"max_relative_error":"Infinity","max_absolute_error":1.0}'


def test_a_definition_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="'weight'"):
        Definition.model_validate(RMSNORM | {"outputs": {"weight": {"shape": [], "dtype": "float32"}}})
    with pytest.raises(ValueError, match="no value"):
        Definition.model_validate(RMSNORM | {"axes": RMSNORM["axes"] | {"H": {"type": "const"}}})


def test_an_unknown_status_is_read() -> None:
    evaluation = {"status": "REWARD_HACK", "environment": {"hardware": "x", "libs": {}}, "timestamp": "now"}
    assert Evaluation.model_validate(evaluation).status == "REWARD_HACK"
