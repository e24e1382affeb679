"""How fast eager serves the traffic by number of threads: a speedup must be measured against its best setting."""

from collections.abc import Sequence

import numpy as np

from candidates.serving_build.served_process import ModelFiles, ProcessSpec, ServedProcess
from candidates.serving_build.speed import choose_strata, random_ids, start_context
from kernel_sandbox.sandbox import Sandbox
from traces.replay.step import EngineStep

ROUNDS = 5
WALL_S = 600.0


def time_eager_by_threads(
    sandbox: Sandbox, model: ModelFiles, steps: Sequence[EngineStep], choices: Sequence[int], seed: int = 0
) -> dict[int, float]:
    """Seconds that all decode passes of the traffic take in eager, by number of threads.

    Choices alternate pass by pass, so that a busy moment meets them all. Decode alone decides: prefill gains from
    every core, decode often does not. Raises ServedProcessEnded when the process fails.
    """
    strata = [stratum for stratum in choose_strata(steps) if stratum.is_decode]
    rng = np.random.default_rng(seed)
    most = max(stratum.call.batch for stratum in strata)
    spec = ProcessSpec(name="eager", build=None, threads=max(choices), max_ids=most, max_batch=most)
    totals_s = dict.fromkeys(choices, 0.0)
    with ServedProcess(sandbox, model, spec, WALL_S) as eager:
        for stratum in strata:
            start_context([eager], stratum.call, seed=0)
            times: dict[int, list[int]] = {threads: [] for threads in choices}
            for _ in range(1 + ROUNDS):
                for threads in rng.permutation(list(choices)).tolist():
                    eager.thaw()
                    eager.ask("threads", count=threads)
                    times[threads].append(eager.time_step(random_ids(stratum.call, model.vocabulary, rng)))
            for threads in choices:
                totals_s[threads] += float(np.median(times[threads][1:])) * 1e-9 * max(stratum.passes, 1.0)
    return totals_s
