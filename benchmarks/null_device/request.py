"""What a run on the null device asks for, and what it is about: the device and its hot ops."""

import functools

from benchmarks.leaderboard_records import make_task
from candidates.device import DeviceFingerprint
from candidates.run import RunRequest
from candidates.task import KernelTask

AGENT = "null"
_A_DAY_S = 86_400.0


@functools.cache
def null_device() -> DeviceFingerprint:
    return DeviceFingerprint(
        kind="cpu",
        model="null device",
        features=(),
        cores=1,
        cache_bytes=(32 << 10,),
        compiler="none",
        torch_version="none",
    )


def make_null_request(
    seed: int, *, hot_ops: int, candidates_per_op: int, approve_automatically: bool = False
) -> RunRequest:
    """Its seed is its traffic: another seed, other tasks and candidates."""
    return RunRequest(
        traces=("/null.jsonl",),
        trace_digest=f"{seed:064x}",
        model="null-model",
        agents=(AGENT,),
        hot_ops=hot_ops,
        search_s=_A_DAY_S * hot_ops,
        attempts_per_op=candidates_per_op,
        approve_automatically=approve_automatically,
    )


def make_null_tasks(request: RunRequest) -> tuple[KernelTask, ...]:
    seed = int(request.trace_digest, 16)
    return tuple(
        make_task(null_device(), seed, number % 40, f"Null{number}", f"model.layers.*.null{number}", "leaf")
        for number in range(request.hot_ops)
    )
