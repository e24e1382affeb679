import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_agent.models.completion import UserMessage
from compiler_agent.models.redaction import REDACTED, Redactor

KEY = "gw_7fQ2x9LmZt"


@given(st.text(), st.text())
def test_a_configured_key_never_comes_through(before, after):
    assert KEY not in Redactor([KEY]).redact(f"{before}{KEY}{after}")


def test_a_key_that_begins_with_another_is_taken_whole():
    assert Redactor([KEY, KEY + "-longer"]).redact(f"a {KEY}-longer b") == f"a {REDACTED} b"


@pytest.mark.parametrize(
    "leak",
    ["sk-proj-abcdefghijklmnop", "sk-ant-api03-abcDEF_123-456789", "sk-proj-****************abcd"],
)
def test_what_looks_like_a_vendors_key_goes_too(leak):
    assert Redactor([]).redact(f"provided: {leak}, sorry") == f"provided: {REDACTED}, sorry"
    assert leak not in Redactor([]).redact(f'"Authorization": "Bearer {leak}"')


@pytest.mark.parametrize("before", ["\n", "\t", '"', "\x1b", "key: "])
def test_it_goes_from_json_too_wherever_a_line_begins(before):
    leak = "sk-ant-api03-abcDEF_123-456789"
    assert leak not in Redactor([]).redact(UserMessage(text=f"{before}{leak}\n").model_dump_json())


@pytest.mark.parametrize(
    "text",
    ["task-parallelism-over-rows", "risk-free", "// sk-norm: the scale", "Bearer of news", "none EMPTY"],
)
def test_kernels_and_prose_stay_as_they_are(text):
    assert Redactor(["none", "EMPTY"]).redact(text) == text
