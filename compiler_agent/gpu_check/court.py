"""The path that every candidate takes, for the check's cases: compiled in the sandbox, judged as this release can."""

import functools
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.gpu_track import GpuTrack
from candidates.builder import Builder
from candidates.ceilings import fingerprint_device
from candidates.device import Gpu
from candidates.dispatch import measure_dispatch_us
from candidates.judge.judge import Judge
from candidates.measurement import Measurement
from candidates.verdict import Rejected, Verdict
from compiler_agent.gpu_check.cases import Case, case_task
from compiler_agent.gpu_check.check import Court
from compiler_agent.gpu_check.results import FactsAnswer, GpuCeilings
from compiler_agent.settings import read_settings
from compiler_agent.wiring import LANGUAGES, make_gpu_bench, make_sandbox

MOST_PAIRS = 60
RACE_S = 10.0


def open_court(facts: FactsAnswer) -> Court:
    """Opens sandboxes for the first case that needs one: where there is none, cases say so and the check goes on."""
    settings = read_settings()
    gpu = Gpu(uuid=str(facts.device["uuid"]), architecture=str(facts.device["architecture"]))
    task = case_task(facts.fingerprint.id, gpu.architecture)

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

    def race(case: Case, artifact: bytes, ceilings: GpuCeilings) -> Measurement | Rejected:
        bench = make_gpu_bench(settings, gpu)
        known = ceilings.of_device(facts.fingerprint, threads=1, dispatch_us=measure_dispatch_us(fingerprint_device()))
        with TemporaryDirectory() as folder, BaselinePool(Path(folder), gpu.uuid) as pool:
            track = GpuTrack(bench.sandbox, gpu, pool)
            benchmark = Benchmark(track, known, cache_folder=Path(folder), measure_again=lambda ceilings: ceilings)
            candidate = case.candidate(LANGUAGES[case.language])
            return benchmark.race(task, candidate, artifact, most_pairs=MOST_PAIRS, most_s=RACE_S)

    return Court(build=build, judge=judged, race=race)
