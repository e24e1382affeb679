"""What the agent proposes for the sites of a real architecture, through the real extraction, builder and judge."""

from pathlib import Path

import pytest

from candidates.agent import Budget, Proposals
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.extraction import extract_task
from candidates.judge.judge import Judge
from candidates.languages.cpp import CppLanguage
from candidates.languages.triton import TritonLanguage
from candidates.task import KernelTask
from candidates.verdict import Accepted, EvidenceKind, NeedsDevice, Rejected
from compiler_agent.agents.search.agent import SearchAgent, naive_kernel
from compiler_agent.agents.search.program import NoProgram
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from traces.capture import capture_calls, find_model_sites
from traces.replay.step import EngineStep
from traces.served_model import open_model

SANDBOX = BubblewrapSandbox()
BUILDER = Builder(SANDBOX, {LanguageName.CPP: CppLanguage(), LanguageName.TRITON: TritonLanguage()}, slots=1)
JUDGE = Judge(SANDBOX)
STEPS = [
    EngineStep(
        prefill_tokens=prefill,
        prefill_context=0,
        decode_batch=batch,
        decode_context=33,
        count=10.0,
        duration_s=1.0,
        share_by_class={"chat": 1.0},
    )
    for prefill, batch in ((17, 0), (0, 1), (0, 5))
]


@pytest.fixture(scope="module")
def tasks(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelTask]:
    home = tmp_path_factory.mktemp("home")
    fake, model = open_model(str(tiny_llama), home).fake_module(), open_model(str(tiny_llama), home).load()
    results = [
        extract_task(model, captured, time_us=lambda _: 1.0, device_id="cpu-0", threads=1, keep=4)
        for captured in capture_calls(fake, find_model_sites(fake), STEPS, span_s=3600.0)
    ]
    return {task.op: task for task in results if isinstance(task, KernelTask)}


def judge(task: KernelTask, candidate: Candidate) -> Accepted | Rejected | NeedsDevice:
    artifact = BUILDER.build(task, candidate)
    return artifact if isinstance(artifact, Rejected) else JUDGE.judge(task, candidate, artifact, seed=5)


def test_every_site_of_a_llama_without_a_cache_but_the_table_look_up_gets_a_kernel_that_the_judge_accepts(
    tasks: dict[str, KernelTask],
) -> None:
    accepted = set()
    for op, task in tasks.items():
        answer = SearchAgent().propose(task, (), Budget(seconds=60, attempts=1))
        if isinstance(answer, Proposals):
            verdict = judge(task, answer.proposals[0].candidate)
            assert isinstance(verdict, Accepted), (op, verdict)
            accepted.add(op)
    assert set(tasks) - accepted == {"Embedding", "LlamaAttention", "LlamaDecoderLayer"}


def test_judge_accepts_the_naive_kernel(tasks: dict[str, KernelTask]) -> None:
    for op in ("LlamaRMSNorm", "LlamaMLP"):
        candidate = naive_kernel(tasks[op])
        assert not isinstance(candidate, NoProgram)
        assert isinstance(judge(tasks[op], candidate), Accepted), op


@pytest.mark.slow
def test_triton_for_a_task_of_gpus_compiles_for_them_and_is_accepted_as_interpreted(
    tasks: dict[str, KernelTask],
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    for op in ("LlamaRMSNorm", "LlamaMLP"):
        task = tasks[op].aimed_at(("sm_90", "gfx942"))
        answer = SearchAgent().propose(task, (), Budget(seconds=60, attempts=1))
        assert isinstance(answer, Proposals)
        verdict = judge(task, answer.proposals[0].candidate)
        assert isinstance(verdict, Accepted), (op, verdict)
        assert verdict.evidence is EvidenceKind.INTERPRETED
