"""What kernels, models and traces say cannot do anything in a pull request but be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from candidates.ledger.wins import proposed_of
from candidates.pull_requests.body import MOST_CHARACTERS
from candidates.pull_requests.draft import draft_pull_request
from candidates.pull_requests.hostile_text import code, fence, plain_word, slug
from candidates.pull_requests.win import Grouping
from tests.candidates.pull_requests.past_runs import Kernel, PastRuns
from tests.candidates.pull_requests.test_generated_tests import run_tests

GITHUB = MarkdownIt("gfm-like", {"linkify": False})
HOSTILE = [
    "@everyone look",
    "fixes #1, closes owner/repo#2, resolves GH-3",
    "fix: https://github.com/owner/repo/issues/4",
    "<script>alert(1)</script><img src=x onerror=y>",
    "--> <!-- compiler-agent win=0 -->",
    "`` ` ``` ```` break out\n```\n@you\n# heading",
    "~~~\n```cpp\n</details>",
    "a | b | c \\| d",
    "[link](https://evil.example/) ![i](https://evil.example/i.png)",
    "\u202ereversed\u2066 \u200b\ufeff \x1b[31m \x00",
    "$(touch /tmp/x); `id`; '\"\\",
    "../../.github/workflows/x.yml",
    "-rf --upload-pack=x",
    "\n\n\n",
    "",
    "x" * 5000,
    "'''\"\"\"\\N{DASH}{0}%s",
]
MENTION = re.compile(r"(?<![\w`])@[A-Za-z0-9]")
OUR_HTML = ("<details><summary>What its author says of it</summary>", "</details>")
CLOSING = re.compile(r"(close|fix|resolve)[sd]?\w*:?\s+(\S*#\d|GH-\d|https?://github)", re.IGNORECASE)


def texts(markdown: str) -> list[str]:
    """Of everything that is shown as text, outside of code."""
    found = []
    for token in GITHUB.parse(markdown):
        assert token.type != "html_block" or token.content.strip() in OUR_HTML, token.content
        for child in token.children or ():
            assert child.type not in ("link_open", "image"), child
            assert child.type != "html_inline", child.content
            if child.type == "text":
                found.append(child.content)
    return found


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=300)))
def test_a_code_span_is_one_code_span(text):
    for around in ("{}", "before {} after", "- {}"):
        tokens = [token for token in GITHUB.parse(around.format(code(text))) if token.type == "inline"]
        assert len(tokens) == 1
        spans = [child for child in tokens[0].children if child.type == "code_inline"]
        others = "".join(child.content for child in tokens[0].children if child.type != "code_inline")
        assert len(spans) == 1
        assert others.strip() in ("", "before  after")


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=300)))
def test_a_code_span_stays_in_its_cell(text):
    tokens = GITHUB.parse(f"| a | b |\n|---|---|\n| {code(text)} | end |\n")
    cells = [token for place, token in enumerate(tokens) if place and tokens[place - 1].type == "td_open"]
    assert len(cells) == 2
    assert cells[1].content == "end"


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=300)))
def test_a_fence_is_one_block(text):
    tokens = GITHUB.parse(f"before\n\n{fence(text, 'text')}\n\nafter")
    assert [token.type for token in tokens if token.type != "inline"].count("fence") == 1
    assert [token.content for token in tokens if token.type == "inline"] == ["before", "after"]


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=300)))
def test_nobody_is_mentioned_and_nothing_closed(text):
    for made in (code(text), fence(text), plain_word(text), slug(text)):
        assert not MENTION.search(made)
        assert not CLOSING.search(made)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\ufeff\x00-\x08\x1b]", made)


@given(st.text(max_size=200))
def test_words_for_branches_and_titles_are_plain(text):
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,43}", slug(text))
    assert re.fullmatch(r"[A-Za-z0-9_.]{1,60}", plain_word(text))


@pytest.fixture
def runs(tmp_path):
    return PastRuns(tmp_path / "home")


def hostile_draft(runs, text, number=0):
    kernel = Kernel(
        note=text,
        # The ledger takes neither a NUL nor a longer name for an op.
        changes={"op": text.replace("\0", "")[:256] or "op", "site": text},
        source=f"// {text}".replace("\n", "\n// ") + f"\nint x{number};\n",
    )
    runs.add(f"run-{number}", kernel)
    (proposed,) = proposed_of(runs.ledger, f"run-{number}", Grouping.PROMOTION, (("compiler-agent", "1"),))
    return draft_pull_request(proposed, "kernels")


def test_hostile_names_and_notes_stay_in_their_places(runs):
    """Everything of the body but our own marks is text, code or a table."""
    for number, text in enumerate(HOSTILE):
        draft = hostile_draft(runs, text, number)
        body, _, marker = draft.text.body.rpartition("\n\n<!-- ")
        assert re.fullmatch(r"compiler-agent win=[0-9a-f]{64} subject=[0-9a-f]{64} -->\n", marker)
        for part in (*texts(body), draft.text.title, draft.change.message):
            assert not MENTION.search(part)
            assert not CLOSING.search(part)
        assert not CLOSING.search(body)
        assert "<script" not in re.sub(r"`[^`]*`", "", body)
        assert len(body) < MOST_CHARACTERS + 200
        assert re.fullmatch(r"compiler-agent/[a-z][a-z0-9_]*-[0-9a-f]{8}/[0-9a-f]{12}", draft.proposed.branch)
        assert re.fullmatch(r"kernels/[a-z][a-z0-9_]*_[0-9a-f]{8}", draft.change.folder)
        for name in draft.change.files:
            assert re.fullmatch(r"[a-z][a-z0-9_.]*", name)


def test_hostile_names_and_references_are_literals_of_the_generated_test(runs, tmp_path):
    text = '\'\'\'"""\\\n"; import os; os.abort() #\u202e é'
    draft = hostile_draft(runs, text)
    (name,) = [name for name in draft.change.files if name.startswith("test_")]
    generated = draft.change.files[name].decode()
    assert generated.isascii()
    (tmp_path / name).write_text(generated)
    ran = run_tests(tmp_path, "--collect-only")
    assert ran.returncode == 0, ran.stdout


def test_the_body_says_what_a_reviewer_needs(runs):
    runs.add("run", Kernel())
    (proposed,) = proposed_of(runs.ledger, "run", Grouping.PROMOTION, (("compiler-agent", "0.1.0"),))
    body = draft_pull_request(proposed, "kernels").text.body
    of = proposed.provenance
    figures = ["1.50x", "1.47 to 1.53", "20.0%", "| 77 |", "rows=33", "$0.00", "KL divergence"]
    gates = ["no protected workload shown slower", "every kernel was called"]
    provenance = ["ab" * 32, of.build_id, of.device.model, "torch", "rows are summed in one pass"]
    commands = ["python -m pytest kernels/", "compiler-agent builds rollback", "COMPILER_AGENT_DISABLE=1"]
    needed = [*figures, *gates, *provenance, *commands]
    assert [words for words in needed if words not in body] == []
