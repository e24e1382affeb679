import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_agent.models.completion import Completion, ModelRequest, Reply, Tool, ToolCall, UserMessage
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


@pytest.mark.parametrize("key", ['quoted"key"0', "back\\slash\\key", "kéy-of-another-land", "two\nlines"])
def test_a_key_that_json_escapes_goes_from_every_text_of_a_record(key):
    call = ToolCall(id="c", name="read_file", arguments_json=json.dumps({"path": key}))
    reply = Completion(outcome=Reply(text=f"It is {key}.", tool_calls=(call,)), usage=None, model="m", seconds=0)
    redacted = Redactor([key]).redact_record(reply)
    assert redacted.outcome.text == f"It is {REDACTED}."
    assert redacted.outcome.tool_calls[0].arguments() == {"path": REDACTED}
    tool = Tool(name="t", description="d", parameters={"type": "object", "required": ["a", f"b {key}"]})
    request = ModelRequest(prefix="", messages=(UserMessage(text="a"),), tools=(tool,), max_output_tokens=1)
    assert Redactor([key]).redact_record(request).tools[0].parameters["required"] == ["a", f"b {REDACTED}"]


@pytest.mark.parametrize("key", ["messages", "max_output_tokens", "medium", "prefix", "tool_calls", "broken"])
def test_a_key_that_is_a_word_of_the_format_leaves_the_format_whole(key):
    message = UserMessage(text=f"the {key}")
    request = ModelRequest(prefix=key, messages=(message,), max_output_tokens=1, effort="medium")
    redacted = Redactor([key]).redact_record(request)
    assert redacted.messages[0].text == f"the {REDACTED}"
    assert redacted == request.model_copy(update={"prefix": REDACTED, "messages": redacted.messages})


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_redacted_can_be_written(text):
    redacted = Redactor([]).redact_record(Reply(text=text))
    assert Reply.model_validate_json(redacted.model_dump_json()) == redacted
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert redacted.text == text


@pytest.mark.parametrize(
    "text",
    ["task-parallelism-over-rows", "risk-free", "// sk-norm: the scale", "Bearer of news", "none EMPTY"],
)
def test_kernels_and_prose_stay_as_they_are(text):
    assert Redactor(["none", "EMPTY"]).redact(text) == text
