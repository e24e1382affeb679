"""The programs that serve task queues on this machine: what they are started with."""

import os
import sys
from collections.abc import Iterable

from compiler_agent.configuration import CONFIG
from compiler_agent.settings import Settings
from workflows import queues

WORKER_PATIENCE_S = 15.0
"""How long one may take to end: activities see their cancellation, sandboxes are closed."""


def worker_command(names: Iterable[str]) -> tuple[str, ...]:
    """`names` of queues, as `compiler-agent worker` takes them."""
    return (sys.executable, "-m", "compiler_agent", "worker", *(f"--queue={name}" for name in names))


def queue_names(settings: Settings) -> tuple[str, ...]:
    """Every queue that this machine can serve."""
    gpu = () if settings.gpu_uuid is None else ("gpu",)
    return (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.SHIP, "device", *gpu)


def worker_environment(settings: Settings, address: str) -> dict[str, str]:
    """The settings of the command that starts it, its options included, and our environment beside them."""
    return {
        **os.environ,
        "COMPILER_AGENT_HOME": str(settings.home),
        "COMPILER_AGENT_LEDGER": settings.ledger_url,
        "COMPILER_AGENT_TEMPORAL": address,
        "COMPILER_AGENT_TEMPORAL_NAMESPACE": settings.temporal_namespace,
        "COMPILER_AGENT_SANDBOX": settings.sandbox,
        "COMPILER_AGENT_GPU": settings.gpu_uuid or "",
        "COMPILER_AGENT_ALLOW_ROOT": "1" if settings.allow_root else "0",
        # What the file sets is in the environment already; one that has changed meanwhile would be another half.
        CONFIG: os.devnull,
        # Idle OpenMP threads must sleep: a spinning one takes a core from whatever is measured.
        "OMP_WAIT_POLICY": "passive",
        # What reads a model draws progress bars, which are no log lines; tqdm asks when it is imported.
        "TQDM_DISABLE": "1",
    }
