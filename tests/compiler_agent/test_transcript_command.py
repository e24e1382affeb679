"""`compiler-agent transcript`: what it prints of a dialogue, and that neither keys nor terminal codes come through."""

import json

import pytest

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.spending import Caps
from candidates.transcript import Transcript, Turn
from compiler_agent.main import run_command
from compiler_agent.models.completion import Broken, Completion, CutOff, Empty, Filtered, Outcome, Refused, Reply
from tests.candidates.past_searches import REJECTED, REQUEST, double_task
from tests.compiler_agent.models.spender import OP, RUN, ask, open_spender
from tests.model_server.behaviour import Say
from tests.model_server.server import KEY, ModelServer

TASK = double_task()
SOURCE = "void kernel() {}"


@pytest.fixture
def server():
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("OPENAI", "ANTHROPIC"):
        for field in ("API_KEY", "BASE_URL", "MODEL"):
            monkeypatch.delenv(f"{name}_{field}", raising=False)
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def ledger(home):
    ledger = Ledger(f"sqlite:///{home / 'ledger.sqlite'}")
    ledger.open_run(REQUEST, RUN)
    ledger.put_task(TASK)
    return ledger


@pytest.fixture
def print_transcript(home, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["transcript", *arguments])
        printed = capsys.readouterr()
        assert KEY not in printed.out + printed.err
        assert "\x1b" not in printed.out
        return code, printed.out, printed.err

    return run


def propose(ledger: Ledger, transcript: str | None, source: str = SOURCE) -> Candidate:
    candidate = Candidate(language="cpp", source=source)
    proposal = Proposal(candidate=candidate, agent="llm", model="test", transcript=transcript, cost_usd=0.05)
    ledger.put_candidate(candidate)
    ledger.put_attempt(RUN, TASK.id, Attempt(proposal=proposal, verdict=REJECTED))
    return candidate


def converse(server: ModelServer, ledger: Ledger, home, *replies: str) -> Candidate:
    """A kernel and its repairs, through real calls to `server`."""
    calls, blobs = ModelCalls(ledger), BlobStore(home / "blobs")
    calls.open_account(RUN, Caps(usd=5.0))
    calls.open_account(OP, Caps())
    model = open_spender(server.url, f"sqlite:///{home / 'ledger.sqlite'}", home)
    turns = []
    for number, reply in enumerate(replies):
        server.will(Say(text=reply))
        call_id = f"{OP}/{number}"
        answer = model.complete(call_id, ask(f"Write it, attempt {number}, do not say {KEY}."), (RUN, OP))
        (tried,) = calls.tries(call_id)
        turns.append(
            Turn(
                call_id=call_id,
                endpoint="test",
                purpose="repair" if number else "draft",
                is_second_try=number > 0,
                request=tried.call.request,
                answer=answer.transcript,
                usd=answer.usd,
            )
        )
    return propose(ledger, blobs.put(Transcript(turns=tuple(turns)).model_dump_json().encode()))


def kept(home, outcome: Outcome, prefix: str = "You write kernels.") -> str:
    """The digest of a dialogue of one turn that came to `outcome`."""
    blobs = BlobStore(home / "blobs")
    request = ask("Write it.").model_copy(update={"prefix": prefix})
    completion = Completion(outcome=outcome, usage=None, model="m-1", seconds=1.0)
    turn = Turn(
        call_id="c",
        endpoint="local",
        purpose="draft",
        request=blobs.put(request.model_dump_json().encode()),
        answer=blobs.put(completion.model_dump_json().encode()),
        usd=None,
    )
    return blobs.put(Transcript(turns=(turn,)).model_dump_json().encode())


def test_prints_each_turn_with_its_purpose_and_cost(print_transcript, server, ledger, home):
    candidate = converse(server, ledger, home, "first reply", "second reply")
    code, out, _ = print_transcript(candidate.id[:10])
    assert code == 0
    assert "=== 1 of 2: draft, test (" in out
    assert "=== 2 of 2: repair, second try, test (" in out
    assert out.count("$0.0") == 3
    assert "attempt 0" in out.partition("=== 2")[0]
    assert out.index("first reply") < out.index("attempt 1") < out.index("second reply")


def test_the_shared_prefix_is_folded_unless_asked_for(print_transcript, server, ledger, home):
    candidate = converse(server, ledger, home, "reply")
    folded, full = (print_transcript(candidate.id, *options)[1] for options in ((), ("--full",)))
    assert "You write kernels." not in folded
    assert "characters that many requests share" in folded
    assert "You write kernels." in full


def test_json_leaves_nothing_out(print_transcript, server, ledger, home):
    candidate = converse(server, ledger, home, "reply")
    code, out, _ = print_transcript(candidate.id, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["candidate"] == candidate.id
    ((turn,),) = [dialogue["turns"] for dialogue in document["dialogues"]]
    assert turn["request"]["prefix"].startswith("You write kernels.")
    assert turn["answer"]["outcome"]["text"] == "reply"


def test_a_key_is_neither_stored_nor_printed(print_transcript, server, ledger, home):
    candidate = converse(server, ledger, home, f"The key is {KEY}: void kernel() {{}}")
    assert len(server.requests) == 1
    for options in ((), ("--full",), ("--json",)):
        code, out, _ = print_transcript(candidate.id, *options)
        assert code == 0
        assert "[redacted key]" in out
        assert "void kernel() {}" in out
    for file in home.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_a_key_that_was_configured_later_is_not_printed_either(print_transcript, ledger, home, monkeypatch):
    candidate = propose(ledger, kept(home, Reply(text="what about gw_7fQ2x9LmZt?")))
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_API_KEY", "gw_7fQ2x9LmZt")
    for options in ((), ("--json",)):
        _, out, _ = print_transcript(candidate.id, *options)
        assert "gw_7fQ2x9LmZt" not in out
        assert "what about [redacted key]?" in out


def test_terminal_codes_of_a_model_show_themselves(print_transcript, ledger, home):
    candidate = propose(ledger, kept(home, Reply(text="\x1b]0;owned\x07\x9b2J \u202e[bold]x[/]"), prefix="\x1b[2J"))
    code, out, _ = print_transcript(candidate.id, "--full")
    assert code == 0
    assert "\\x1b]0;owned\\x07\\x9b2J \\u202e[bold]x[/]" in out
    assert "\x9b" not in out
    print_transcript(candidate.id, "--json")


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (CutOff(text="void ker", limit="max_output_tokens"), "void ker\n(cut off at max_output_tokens)"),
        (Refused(explanation="I will not."), "I will not."),
        (Filtered(explanation="held"), "(held back: held)"),
        (Broken(text="void", problem="stalled"), "void\n(broke off: stalled)"),
        (Empty(), "(not a word)"),
    ],
)
def test_every_outcome_reads(print_transcript, ledger, home, outcome, said):
    candidate = propose(ledger, kept(home, outcome))
    code, out, _ = print_transcript(candidate.id)
    assert code == 0
    assert f"--- answer: {outcome.kind}\n{said}" in out
    assert "price unknown" in out


def test_a_candidate_that_no_model_wrote_has_none(print_transcript, ledger):
    candidate = propose(ledger, None)
    code, out, err = print_transcript(candidate.id)
    assert (code, out) == (1, "")
    assert "no model wrote" in err
    code, out, _ = print_transcript(candidate.id, "--json")
    assert (code, json.loads(out)) == (1, {"candidate": candidate.id, "dialogues": []})


def test_an_unknown_candidate_is_the_users_to_mend(print_transcript, ledger):
    code, out, err = print_transcript("3f2a")
    assert (code, out) == (2, "")
    assert "candidate 3f2a is not in the ledger" in err


def test_a_dialogue_with_a_lost_blob_is_named(print_transcript, ledger):
    candidate = propose(ledger, "0" * 64)
    code, _, err = print_transcript(candidate.id)
    assert code == 2
    assert "the dialogue is not whole: blob 000" in " ".join(err.split())


@pytest.mark.parametrize("content", [b"[]", b"{}", b"\xff\xfe", b"not JSON"])
def test_a_dialogue_of_another_form_is_told(print_transcript, ledger, home, content):
    written = propose(ledger, BlobStore(home / "blobs").put(content))
    code, _, stderr = print_transcript(written.id)
    assert code == 2
    assert "dialogue" in stderr
