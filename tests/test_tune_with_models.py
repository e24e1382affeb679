"""`compiler-agent tune --agent llm` as a user types it: scripted over the wire, and with a real model that writes."""

import json
from pathlib import Path

import pytest
from judge_tasks import RMSNORM

from candidates.ledger.model_calls import ModelCalls
from candidates.verdict import Accepted, Reason, Rejected
from tests.compiler_agent.scripted_endpoint import PRICES, billed_tokens, configure, open_ledger, run
from tests.model_server.behaviour import Say
from tests.model_server.server import ModelServer

GOOD = (Path(__file__).parent / "attacks" / "honest" / "rmsnorm_two_pass.cpp").read_text()
BROKEN = GOOD.replace("float scale", "flaot scale")

FRAME = (
    'Change: as asked\n\n```cpp\n#include <cstdint>\nextern "C" void kernel(const float* x, const float* weight, '
    "float* y, int64_t rows) {\n",
    "\n}\n```\n",
)
"""A small model does not find the form by itself; what stands within it is its own."""


def says(source: str, change: str) -> Say:
    return Say(text=f"Here it is.\nChange: {change}\n\n```cpp\n{source}```\n")


@pytest.mark.slow
def test_a_compile_error_is_repaired_and_everything_is_on_record(tmp_path):
    server = ModelServer()
    server.will(says(BROKEN, "two passes over each row"), says(GOOD, "spelled float right"))
    configure(tmp_path, scripted=server)
    ledger = open_ledger(tmp_path)
    ledger.put_task(RMSNORM)
    done = run(
        *(tmp_path, "tune", RMSNORM.id[:12], "--agent", "llm", "--model-name", "scripted"),
        *("--budget-usd", "5", "--attempts", "2", "--seconds", "300", "--json"),
    )
    server.close()
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["decision"] == "won" else 1), done.stderr

    broken, repaired = ledger.attempts(report["run_id"], RMSNORM.id)
    assert isinstance(broken.verdict, Rejected)
    assert broken.verdict.reason is Reason.BUILD_FAILED
    assert isinstance(repaired.verdict, Accepted)
    assert repaired.proposal.candidate.source == GOOD
    assert repaired.proposal.parents == (broken.proposal.candidate.id,)
    assert (report["tried"], report["candidate"]) == (2, repaired.proposal.candidate.id)
    assert report["stop_reason"] == "budget: 2 attempts made"
    assert "flaot" in json.dumps(server.requests[1]["messages"])

    assert len(server.billed) == len(ModelCalls(ledger).calls(report["run_id"])) == 2
    assert report["spend_usd"] == pytest.approx(server.usd(**PRICES), abs=1e-8)
    assert report["spend_tokens"] == billed_tokens(server)
    assert report["spend_usd"] == pytest.approx(broken.proposal.cost_usd + repaired.proposal.cost_usd)

    told = run(tmp_path, "transcript", repaired.proposal.candidate.id[:12])
    assert told.returncode == 0, told.stderr
    assert "1 of 1: repair, scripted" in told.stdout
    assert "flaot" in told.stdout.split("--- answer: reply")[0]
    assert GOOD.strip() in told.stdout.split("--- answer: reply")[1]


@pytest.mark.slow
@pytest.mark.long
def test_a_real_model_that_writes_poor_kernels_is_survived(tmp_path):
    from tests.compiler_agent.models.speaker import Speaker

    server = ModelServer(key=None, is_vendors=False)
    server.default = Speaker(tmp_path, most_new_tokens=96, frame=FRAME)
    price = "usd_per_million_tokens = { input = 1.0, output = 2.0 }"
    (tmp_path / "models.toml").write_text(
        f'[local]\napi = "openai-chat"\nmodel = "test-model-1"\nbase_url = "{server.url}/v1"\n{price}\n'
    )
    ledger = open_ledger(tmp_path)
    ledger.put_task(RMSNORM)
    done = run(
        *(tmp_path, "tune", RMSNORM.id[:12], "--agent", "llm", "--model-name", "local"),
        *("--budget-usd", "1", "--attempts", "2", "--seconds", "150", "--json"),
    )
    server.close()
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["decision"] == "won" else 1), done.stderr
    assert "Traceback" not in done.stderr
    assert report["stop_reason"].partition(":")[0] in ("budget", "no_kernel", "no_progress")
    attempts = ledger.attempts(report["run_id"], RMSNORM.id)
    assert 1 <= len(attempts) == report["tried"] <= 2
    assert all(each.proposal.candidate.source.startswith("#include <cstdint>") for each in attempts)
    calls = ModelCalls(ledger).calls(report["run_id"])
    assert len(calls) == len(server.billed) >= 1
    assert all(one.end is not None and one.end.is_spend_known for one in calls)
    assert report["spend_tokens"] == billed_tokens(server) > 0
    assert report["spend_usd"] == pytest.approx(server.usd(input=1, cache_read=1, cache_write=1, output=2), abs=1e-8)
