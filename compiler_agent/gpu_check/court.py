"""The path that every candidate takes, for the check's cases: compiled in the sandbox, judged as this release can."""

import functools
import os

from candidates.builder import Builder
from candidates.device import Gpu
from candidates.judge.judge import Judge
from candidates.verdict import Rejected, Verdict
from compiler_agent.gpu_check.cases import Case, case_task
from compiler_agent.gpu_check.check import Court
from compiler_agent.gpu_check.results import FactsAnswer
from compiler_agent.settings import read_settings
from compiler_agent.wiring import LANGUAGES, make_gpu_bench, make_sandbox


def open_court(facts: FactsAnswer) -> Court:
    """Opens sandboxes for the first case that needs one: where there is none, cases say so and the check goes on."""
    settings = read_settings()
    gpu = Gpu(uuid=str(facts.device["uuid"]), architecture=str(facts.device["architecture"]))
    task = case_task(facts.fingerprint, gpu.architecture)

    @functools.cache
    def builder() -> Builder:
        return Builder(make_sandbox(settings), LANGUAGES, slots=os.cpu_count() or 1)

    @functools.cache
    def judge() -> Judge:
        return Judge(make_sandbox(settings), gpu=make_gpu_bench(settings, gpu))

    def build(case: Case) -> bytes | Rejected:
        return builder().build(task, case.candidate(LANGUAGES[case.language]))

    def judged(case: Case, artifact: bytes) -> Verdict:
        return judge().judge(task, case.candidate(LANGUAGES[case.language]), artifact)

    return Court(build=build, judge=judged)
