"""Whatever an op or a model is called, what is defined for it has a harmless name."""

import keyword
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.serving_build.export_names import argument_names, class_name, distribution_name, free_name, module_name


@pytest.mark.parametrize(
    ("op", "module", "kind"),
    [
        ("LlamaRMSNorm", "llama_rms_norm", "LlamaRMSNorm"),
        ("LlamaMLP.decode", "llama_mlp_decode", "LlamaMLPDecode"),
        ("Linear[576,1536].prefill", "linear_576_1536_prefill", "Linear576x1536Prefill"),
        ("apply_rotary_pos_emb", "apply_rotary_pos_emb", "ApplyRotaryPosEmb"),
        ("class", "class_", "Class"),
        ("2-pass", "op_2_pass", "op_2Pass"),
        ("serve", "serve_", "Serve"),
    ],
)
def test_names_of_ops(op: str, module: str, kind: str) -> None:
    assert (module_name(op), class_name(op)) == (module, kind)


@given(st.text())
def test_any_text_gives_a_name(text: str) -> None:
    for name in (module_name(text), class_name(text)):
        assert name.isidentifier()
        assert name.isascii()
        assert not keyword.iskeyword(name)
        assert len(name) < 64
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", distribution_name(text))


@given(st.lists(st.text(), max_size=6))
def test_arguments_are_distinct_and_none_is_what_generated_code_calls(names: list[str]) -> None:
    found = argument_names(names)
    assert len(set(found)) == len(found) == len(names)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in found)
    assert not {"self", "torch", "nn", "serve", "serve_function"} & set(found)


def test_a_taken_name_is_numbered() -> None:
    assert [free_name("a", taken) for taken in ([], ["a"], ["a", "a_2"])] == ["a", "a_2", "a_3"]


def test_names_of_no_letters_differ_by_what_they_were() -> None:
    assert module_name("あ") != module_name("い")
