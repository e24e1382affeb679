"""Names meet classes: which language, agent and sandbox stands behind which word, and who gets which collaborator."""

import functools
import importlib.metadata
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from candidates.agent import KernelAgent
from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark, LiveKernel
from candidates.benchmark.exclusive import measuring_core
from candidates.benchmark.gpu_track import GpuTrack
from candidates.benchmark.track import CpuTrack
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.ceilings import fingerprint_device
from candidates.compiler_report import CompilerReporter
from candidates.compiler_reports import CompilerReports
from candidates.device import Gpu
from candidates.file_lock import hold_lock
from candidates.forge import Forge
from candidates.gpu_counters import WorkloadCounters
from candidates.gpu_profiler import GpuProfiler, NotCounted
from candidates.judge.gpu_sanitizers import GpuSanitizers
from candidates.judge.judge import GpuBench, Judge
from candidates.judge.sanitizers import Sanitizers
from candidates.judge.sanitizers_by_language import SanitizersByLanguage
from candidates.language import KernelLanguage, language_for
from candidates.languages.cpp import CppLanguage
from candidates.languages.cuda import CudaLanguage
from candidates.languages.triton import TritonLanguage
from candidates.ledger.blobs import BlobStore
from candidates.ledger.cards import Cards
from candidates.ledger.flaws import Flaws
from candidates.ledger.known_device import known_device_facts
from candidates.ledger.ledger import Ledger
from candidates.ledger.past_winners import past_winners
from candidates.pull_requests.desk import PullRequestDesk
from candidates.record import digest_of
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import entry_at, read_live
from candidates.serving_build.signing import sign_manifest
from candidates.serving_build.target import ServingTarget
from candidates.serving_build.targets.flashinfer_trace import FlashinferTrace
from candidates.serving_build.targets.hf_kernels import HfKernels
from candidates.serving_build.targets.sglang import Sglang
from candidates.serving_build.targets.vllm import Vllm
from candidates.task import KernelTask
from compiler_agent.agents.llm.agent import LlmAgent
from compiler_agent.agents.llm.collaborators import Collaborators
from compiler_agent.agents.search.agent import SearchAgent
from compiler_agent.blob_store import open_blobs
from compiler_agent.device import known_ceilings
from compiler_agent.forge_settings import ForgeName, ForgeSettings, read_token
from compiler_agent.forges.github_address import API_URL, git_url, repository_name
from compiler_agent.forges.local import LocalForge
from compiler_agent.gpu import find_gpu, known_gpu_ceilings, measure_gpu_ceilings_again
from compiler_agent.models.endpoints import find_endpoint, read_endpoints
from compiler_agent.models.metered import MeteredModel, open_model
from compiler_agent.outcome import UserFault
from compiler_agent.settings import SandboxName, Settings
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.docker_image import ImageName, recorded_image
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.gpu_nodes import gpu_nodes
from kernel_sandbox.sandbox import Sandbox

_CPP, _CUDA, _TRITON = CppLanguage(), CudaLanguage(), TritonLanguage()
LANGUAGES: Mapping[LanguageName, KernelLanguage] = {
    LanguageName.CPP: _CPP,
    LanguageName.CUDA: _CUDA,
    LanguageName.TRITON: _TRITON,
}
REPORTERS: Mapping[LanguageName, CompilerReporter] = {
    LanguageName.CPP: _CPP,
    LanguageName.CUDA: _CUDA,
    LanguageName.TRITON: _TRITON,
}
"""Languages whose compiler says what it made of a candidate."""

TARGETS: Mapping[str, Callable[[Settings], ServingTarget]] = {
    "hf-kernels": lambda settings: HfKernels(functools.partial(sign_manifest, settings.home)),
    "flashinfer-trace": lambda settings: FlashinferTrace(),
    "vllm": lambda settings: Vllm(),
    "sglang": lambda settings: Sglang(),
}
"""Where a build's kernels can be exported to."""

ARTIFACTS = "artifacts"
"""Of the cache folder: what builds left, where their compilers are known by version."""
SANDBOXES: Mapping[SandboxName, Callable[[Settings], Sandbox]] = {
    SandboxName.BUBBLEWRAP: lambda settings: BubblewrapSandbox(),
    SandboxName.DOCKER: lambda settings: DockerSandbox(recorded_image(settings.home, ImageName.CPU)),
}
GPU_SANDBOXES: Mapping[SandboxName, Callable[[Settings, Gpu], Sandbox]] = {
    SandboxName.BUBBLEWRAP: lambda settings, gpu: BubblewrapSandbox(gpu_nodes(gpu.uuid)),
    SandboxName.DOCKER: lambda settings, gpu: DockerSandbox(recorded_image(settings.home, ImageName.CUDA), (gpu.uuid,)),
}
"""Each raises SandboxUnavailable where it cannot be had."""


def _github(forge: ForgeSettings, home: Path) -> Forge:
    try:
        from compiler_agent.forges.github import GitHubForge
    except ModuleNotFoundError as error:
        raise UserFault(f"pull requests on GitHub need {error.name}: pip install 'compiler-agent[forge]'") from error
    api_url, token = forge.api_url or API_URL, read_token(forge)
    return GitHubForge(forge.repository, token, api_url=api_url, base_branch=forge.base_branch)


def _local_name(forge: ForgeSettings) -> str:
    return str(Path(forge.repository).resolve())


def _github_name(forge: ForgeSettings) -> str:
    return repository_name(git_url(forge.api_url or API_URL, forge.repository)[0])


def _local(forge: ForgeSettings, home: Path) -> Forge:
    records = home / "pull_requests" / digest_of(_local_name(forge))[:12]
    return LocalForge(Path(forge.repository), records, forge.base_branch)


FORGES: Mapping[ForgeName, Callable[[ForgeSettings, Path], Forge]] = {
    ForgeName.LOCAL: _local,
    ForgeName.GITHUB: _github,
}
"""Each raises ForgeRefused or UserFault where it cannot be had."""


REPOSITORY_NAMES: Mapping[ForgeName, Callable[[ForgeSettings], str]] = {
    ForgeName.LOCAL: _local_name,
    ForgeName.GITHUB: _github_name,
}
"""What `Forge.repository` says, without a token. Each raises ForgeRefused."""


def open_desk(settings: Settings, ledger: Ledger) -> PullRequestDesk | None:
    """None: no repository is configured. Raises ForgeRefused and UserFault."""
    if settings.forge is None:
        return None
    return PullRequestDesk(
        ledger,
        FORGES[settings.forge.forge](settings.forge, settings.home),
        BuildStore(settings.home),
        style=settings.forge.style,
        grouping=settings.forge.grouping,
        versions=(("compiler-agent", importlib.metadata.version("compiler-agent")),),
        alone=functools.partial(hold_lock, settings.home / "pull_requests" / ".lock"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKind:
    asks_models: bool
    """It is paid for, from the accounts in its budget."""
    build: Callable[[Settings, Ledger, BlobStore], KernelAgent]


def _llm_agent(settings: Settings, ledger: Ledger, blobs: BlobStore) -> KernelAgent:
    def model(name: str) -> MeteredModel:
        endpoint = find_endpoint(read_endpoints(settings.home, os.environ), name)
        return open_model(endpoint, settings.home, os.environ, ledger, blobs)

    reports, cards = compiler_reports(settings), Cards(ledger)
    return LlmAgent(
        Collaborators(
            open_model=model,
            languages=LANGUAGES,
            store=blobs.put,
            device_facts=lambda task: known_device_facts(ledger, task),
            compiler_report=lambda task, candidate: reports.report(task, candidate).as_text(),
            past_winners=lambda task: past_winners(ledger, task),
            memory=lambda task: tuple(card.as_text() for card in cards.search(task)),
        )
    )


def _search_agent(settings: Settings, ledger: Ledger, blobs: BlobStore) -> KernelAgent:
    return SearchAgent(
        past_winners=lambda task: past_winners(ledger, task),
        ceilings=lambda task, threads: ledger.ceilings(task.device_id, threads),
    )


AGENTS: Mapping[str, AgentKind] = {
    "search": AgentKind(asks_models=False, build=_search_agent),
    "llm": AgentKind(asks_models=True, build=_llm_agent),
}


def agents(settings: Settings, ledger: Ledger, blobs: BlobStore) -> Callable[[str], KernelAgent]:
    """By name. Each is built when it is first asked for: a run without models needs nothing of theirs."""

    @functools.cache
    def agent(name: str) -> KernelAgent:
        if name not in AGENTS:
            raise UserFault(f"this worker knows no agent {name}: known are {', '.join(AGENTS)}")
        return AGENTS[name].build(settings, ledger, blobs)

    return agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What it takes to judge and measure a candidate on this machine."""

    ledger: Ledger
    blobs: BlobStore
    sandbox: Sandbox
    builder: Builder
    judge: Judge
    sanitizers: SanitizersByLanguage
    benchmark: Callable[[KernelTask], Benchmark | None]
    """None: nothing here times kernels for the task's device."""
    live: Callable[[KernelTask], LiveKernel | None]
    """What the live build has for it, if it is for this hardware."""
    count: Callable[[KernelTask, Candidate, bytes], WorkloadCounters | NotCounted | None]
    """Counters of a GPU; None where there is none."""


@contextmanager
def open_workbench(settings: Settings) -> Iterator[Workbench]:
    ledger = Ledger(settings.ledger_url)
    blobs, sandbox, bench = open_blobs(settings), make_sandbox(settings), find_gpu_bench(settings)
    with ExitStack() as stack:
        pool = stack.enter_context(BaselinePool(settings.cache / "compile"))
        cpu = CpuTrack(sandbox, pool, settings.cache)
        if bench is not None:
            gpu_pool = stack.enter_context(BaselinePool(settings.cache / "compile", bench.gpu.uuid))
            gpu = GpuTrack(bench.sandbox, bench.gpu, gpu_pool)

        def benchmark(task: KernelTask) -> Benchmark | None:
            if language_for(task) is LanguageName.CPP:
                return Benchmark(cpu, known_ceilings(settings, ledger, task.threads), cache_folder=settings.cache)
            if bench is None or not bench.gpu.serves(task):
                return None
            return Benchmark(
                gpu,
                known_gpu_ceilings(ledger, bench.gpu.uuid, task.threads),
                cache_folder=settings.cache,
                measure_again=functools.partial(measure_gpu_ceilings_again, bench.gpu.uuid),
            )

        def live(task: KernelTask) -> LiveKernel | None:
            build = read_live(BuildStore(settings.home), fingerprint_device())
            entry = None if build is None else entry_at(build, task)
            if entry is None or Flaws(ledger).of(entry.id) is not None:
                return None
            blob = ledger.artifact(entry.task_id, entry.id)
            return None if blob is None else LiveKernel(candidate=ledger.candidate(entry.id), artifact=blobs.get(blob))

        def count(task: KernelTask, candidate: Candidate, artifact: bytes) -> WorkloadCounters | NotCounted | None:
            if bench is None or not bench.gpu.serves(task):
                return None
            return GpuProfiler(bench).count(task, candidate, artifact)

        yield Workbench(
            ledger=ledger,
            blobs=blobs,
            sandbox=sandbox,
            builder=Builder(sandbox, LANGUAGES, slots=os.cpu_count() or 1, cache_folder=settings.cache / ARTIFACTS),
            judge=Judge(sandbox, core=measuring_core(), gpu=bench, cache_folder=settings.cache),
            sanitizers=SanitizersByLanguage(
                Sanitizers(sandbox, LANGUAGES[LanguageName.CPP]), None if bench is None else GpuSanitizers(bench)
            ),
            benchmark=benchmark,
            live=live,
            count=count,
        )


def make_sandbox(settings: Settings) -> Sandbox:
    return SANDBOXES[settings.sandbox](settings)


def find_gpu_bench(settings: Settings) -> GpuBench | None:
    """None where no GPU was named. Raises UserFault and SandboxUnavailable for one that cannot be had."""
    return None if settings.gpu_uuid is None else make_gpu_bench(settings, find_gpu(settings.gpu_uuid))


def make_gpu_bench(settings: Settings, gpu: Gpu) -> GpuBench:
    """Only what runs a kernel is shown the GPU; what compiles it is not."""
    return GpuBench(gpu=gpu, sandbox=GPU_SANDBOXES[settings.sandbox](settings, gpu))


def compiler_reports(settings: Settings) -> CompilerReports:
    """Compiles beside the builds of a run, and like them never beside a measurement."""
    builder = Builder(
        make_sandbox(settings), LANGUAGES, slots=os.cpu_count() or 1, cache_folder=settings.cache / ARTIFACTS
    )
    return CompilerReports(builder, REPORTERS)
