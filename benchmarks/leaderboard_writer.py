"""Writes to a ledger as a nightly run does: `python -m benchmarks.leaderboard_writer URL FACTS_PER_S`.

Candidates, attempts, measurements and progress, each in its own transaction with standings kept up. It prints READY
once it has written one. TERM ends it; it then prints how many facts it wrote and how long they took.
"""

import json
import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

from benchmarks.leaderboard_records import MODELS, Kernel, Kernels, make_attempt, make_measurement, vary
from benchmarks.leaderboard_runs import make_request
from benchmarks.percentile import percentile_ms
from candidates.agent import Attempt
from candidates.ledger.ledger import Ledger
from candidates.measurement import Measurement
from candidates.run import Progress, Stage
from candidates.task import KernelTask

READY = b"writing\n"


def _writes(ledger: Ledger, run_id: str, tasks: tuple[KernelTask, ...], seed: int) -> Iterator[Callable[[], None]]:
    """Endless; each writes one fact."""
    chance, kernels = random.Random(seed), Kernels(seed)
    tried: list[tuple[KernelTask, Kernel]] = []
    while True:
        task = chance.choice(tasks)
        template = make_measurement(task, 1.0)
        kernel, record = kernels.make(task, None)
        attempt = Attempt.model_validate(make_attempt(kernel, record, task, None, template, chance))
        yield partial(ledger.put_candidate, attempt.proposal.candidate)
        yield partial(ledger.put_attempt, run_id, task.id, attempt)
        message = f"{task.op}: {len(tried)} tried"
        yield partial(ledger.add_progress, run_id, Progress(stage=Stage.SEARCH, op=task.op, message=message))
        if kernel.outcome == "accepted":
            tried.append((task, kernel))
            for stage in ("race", "confirm"):
                measurement = Measurement.model_validate(vary(template, chance, stage, kernel.speedup))
                yield partial(ledger.put_measurement, run_id, task.id, kernel.id, measurement)


def _write(ledger: Ledger, facts_per_s: float, times_s: list[float]) -> None:
    seed = secrets.randbits(48)
    # The same request each time: the run is gone on with, and the ledger has one open run however often it is loaded.
    run_id = ledger.open_run(
        make_request(MODELS[0], 0).model_copy(update={"traces": ("/load.jsonl",)}), "run-of-the-load"
    )
    for number, write in enumerate(_writes(ledger, run_id, ledger.tasks()[:8], seed)):
        began_s = time.monotonic()
        write()
        times_s.append(time.monotonic() - began_s)
        if number == 0:
            sys.stdout.buffer.write(READY)
            sys.stdout.buffer.flush()
        time.sleep(max(0.0, 1 / facts_per_s - times_s[-1]))


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    url, facts_per_s = sys.argv[1], float(sys.argv[2])
    signal.signal(signal.SIGTERM, _stop)
    times_s: list[float] = []
    try:
        _write(Ledger(url), facts_per_s, times_s)
    except KeyboardInterrupt:
        shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
        figures = {name: percentile_ms(times_s, share) for name, share in shares.items()}
        sys.stdout.write(json.dumps({"facts": len(times_s), **figures}) + "\n")


if __name__ == "__main__":
    main()
