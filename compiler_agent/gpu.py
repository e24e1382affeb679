"""The GPU that a user named: what its vendor's tool says of it, what it is, and what it can do at best."""

import functools
import importlib.util
import subprocess
from collections.abc import Sequence

from candidates.benchmark.exclusive import running_slot
from candidates.ceilings import fingerprint_device, raise_ceilings
from candidates.device import DeviceCeilings, DeviceFingerprint, Gpu
from candidates.dispatch import measure_dispatch_us
from candidates.gpu_fingerprint import gpu_slot
from candidates.ledger.ledger import Ledger
from compiler_agent.gpu_check.children import run_child
from compiler_agent.gpu_check.results import CeilingsAnswer, CeilingsJob, FactsAnswer, FactsJob, GpuCeilings
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings

NVIDIA_SMI_LIMIT_S = 30.0
_START_S = 60.0  # of a process: torch, and CUDA's context
_CEILINGS_S = 60.0


def find_gpu(uuid: str) -> Gpu:
    """By what the vendor's tool says. Raises UserFault for one that is not here."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=NVIDIA_SMI_LIMIT_S,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UserFault(f"nvidia-smi does not list the GPUs ({error}), so {uuid} cannot be used") from error
    capabilities = dict(line.split(", ", 1) for line in listed.splitlines() if ", " in line)
    # A part of a GPU is not listed; where all GPUs are of one architecture, so is it.
    found = {capabilities[uuid]} if uuid in capabilities else set(capabilities.values())
    if len(found) != 1 or not (uuid in capabilities or uuid.startswith("MIG-")):
        raise UserFault(f"no GPU {uuid} (COMPILER_AGENT_GPU): there are {', '.join(capabilities) or 'none'}")
    return Gpu(uuid=uuid, architecture=f"sm_{found.pop().strip().replace('.', '')}")


def target_gpu(settings: Settings, ledger: Ledger, architectures: Sequence[str]) -> str | None:
    """Fingerprint of the GPU that kernels for `architectures` are measured on, which the ledger then knows; None where
    none was named, or it is not of them. Raises UserFault, also where Triton is missing, in which they are written."""
    if architectures and importlib.util.find_spec("triton") is None:
        raise UserFault(
            "kernels for GPUs are written in Triton, which is not installed: pip install 'compiler-agent[gpu]'"
        )
    if settings.gpu_uuid is None or find_gpu(settings.gpu_uuid).architecture not in architectures:
        return None
    device = identify_gpu(settings.gpu_uuid)
    ledger.put_device(device)
    return device.id


@functools.cache
def identify_gpu(uuid: str) -> DeviceFingerprint:
    """In a process of its own. Raises UserFault where torch cannot use it."""
    ended = run_child(FactsJob(uuid=uuid), _START_S)
    for answer in ended.answers:
        if isinstance(answer, FactsAnswer):
            return answer.fingerprint
    raise UserFault(f"{uuid} (COMPILER_AGENT_GPU) cannot be used: {ended.log.strip() or ended.ending.value}")


def known_gpu_ceilings(ledger: Ledger, uuid: str, threads: int) -> DeviceCeilings:
    """Measured where the ledger does not know them, alone on the GPU. Raises UserFault."""
    device = identify_gpu(uuid)
    known = ledger.ceilings(device.id, threads)
    if known is None:
        with running_slot(), gpu_slot(uuid):
            measured = _read_ceilings(uuid)
        dispatch_us = measure_dispatch_us(fingerprint_device())
        known = measured.of_device(device, threads=threads, dispatch_us=dispatch_us)
        ledger.put_device(device)
        ledger.put_ceilings(known)
    return known


def measure_gpu_ceilings_again(uuid: str, known: DeviceCeilings) -> DeviceCeilings:
    """Within a measurement on this GPU: for a time that looks too good to be true."""
    seen = _read_ceilings(uuid).of_device(identify_gpu(uuid), threads=known.threads, dispatch_us=known.dispatch_us)
    return raise_ceilings(known, seen)


def _read_ceilings(uuid: str) -> GpuCeilings:
    ended = run_child(CeilingsJob(uuid=uuid, limit_s=_CEILINGS_S), _CEILINGS_S + _START_S)
    for answer in ended.answers:
        if isinstance(answer, CeilingsAnswer):
            return answer.ceilings
    raise UserFault(f"the rates of {uuid} cannot be measured: {ended.log.strip() or ended.ending.value}")
