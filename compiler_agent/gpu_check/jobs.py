"""Does one job on a device, giving every answer as soon as it has it: a child that is ended leaves what it finished."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from candidates.builder import CompilerUnavailable
from candidates.gpu_fingerprint import fingerprint_gpu
from candidates.languages.cuda_toolkit import find_toolkit
from compiler_agent.gpu_check.cases import CASES
from compiler_agent.gpu_check.contest import Contest, hold_contest
from compiler_agent.gpu_check.contests import OPS, make_contest
from compiler_agent.gpu_check.device_case import open_kernel, run_bare, run_case
from compiler_agent.gpu_check.device_ceilings import measure_gpu_ceilings
from compiler_agent.gpu_check.results import (
    Answer,
    CaseAnswer,
    CasesJob,
    CeilingsAnswer,
    CeilingsJob,
    FactsAnswer,
    FactsJob,
    Job,
    OpAnswer,
    OpJob,
)
from kernel_sandbox.runners.gpu_device import Device

MakeContest = Callable[[str, int, Device, int], Contest]
"""Of an op's name, rows, a device and a seed."""


def _make_contest(name: str, rows: int, device: Device, seed: int) -> Contest:
    return make_contest(name, OPS[name], rows, device.torch_device, seed)


def do_job(device: Device, job: Job, make: MakeContest = _make_contest) -> Iterator[Answer]:
    """Raises DeviceFault."""
    match job:
        case FactsJob():
            yield FactsAnswer(device=asdict(device.facts), fingerprint=fingerprint_gpu(device.facts, _compilers()))
        case CeilingsJob():
            deadline_s = time.monotonic() + job.limit_s
            yield CeilingsAnswer(ceilings=measure_gpu_ceilings(device, deadline_s=deadline_s))
        case OpJob():
            yield from _hold_contests(device, job, make)
        case CasesJob():
            known = {case.file: case for case in CASES}
            for file, artifact in job.artifacts.items():
                call = open_kernel(device, known[file], artifact)
                found = run_case(device, call, job.seed) if job.has_guards else run_bare(device, call)
                yield CaseAnswer(case=file, found=found.what, detail=found.detail)


def _hold_contests(device: Device, job: OpJob, make: MakeContest) -> Iterator[OpAnswer]:
    rng = random.Random(job.seed)
    began_s = time.monotonic()
    for index, rows in enumerate(job.rows):
        # An equal share of what is left for each: a slow compiler at one shape leaves the others theirs.
        now_s = time.monotonic()
        share_s = (began_s + job.limit_s - now_s) / (len(job.rows) - index)
        contest = make(job.op, rows, device, rng.getrandbits(48))
        held = hold_contest(device, contest, job.ceilings, rng, now_s + share_s)
        yield OpAnswer(measured=tuple(held.measured), missing=tuple(held.missing), notes=tuple(held.notes))


def _compilers() -> str:
    try:
        return find_toolkit().versions
    except CompilerUnavailable:
        return "no nvcc"
