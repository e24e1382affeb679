"""Activities that need a model or a device, done without either; what they record is of the usual shapes and sizes."""

import random
from pathlib import Path

from temporalio import activity

from benchmarks.leaderboard_runs import SearchPast, make_end_to_end, make_ranking, make_replay
from benchmarks.null_device.request import make_null_tasks, null_device
from candidates.ledger.ledger import Ledger
from candidates.promotion import EndToEnd
from candidates.run import Progress, Ranking, ReplayRecord, Stage
from candidates.serving_build.build import read_build
from candidates.serving_build.builds import BuildStore
from workflows.activities.survey import plan_searches
from workflows.payloads import RunInput, SearchPlan, ShipInput

_SPEEDUP_OF_BUILD = 1.4


class NullSurveyActivities:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @activity.defn
    def measure_device(self, run: RunInput) -> None:
        self._ledger.put_device(null_device())
        self._ledger.add_progress(run.run_id, Progress(stage=Stage.DEVICE, message="the null device"))

    @activity.defn
    def replay_traffic(self, run: RunInput) -> None:
        if self._ledger.stage(run.run_id, Stage.REPLAY, ReplayRecord) is None:
            request = self._ledger.run_request(run.run_id)
            self._ledger.put_stage(run.run_id, Stage.REPLAY, make_replay(random.Random(request.trace_digest)))

    @activity.defn
    def rank_hot_ops(self, run: RunInput) -> SearchPlan:
        request = self._ledger.run_request(run.run_id)
        ranking = self._ledger.stage(run.run_id, Stage.RANKING, Ranking)
        if ranking is None:
            tasks = make_null_tasks(request)
            for task in tasks:
                self._ledger.put_task(task)
            share = 1.0 / len(tasks)
            ranking = make_ranking([SearchPast(task=task, best=None, share_of_time=share, tried=0) for task in tasks])
            self._ledger.put_stage(run.run_id, Stage.RANKING, ranking)
        return plan_searches(self._ledger, run, request, ranking)


class NullGateActivities:
    def __init__(self, ledger: Ledger, home: Path) -> None:
        self._ledger, self._home = ledger, home

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None:
        build = self._ledger.build_of(ship.run_id)
        if build is None or self._ledger.stage(ship.run_id, Stage.END_TO_END, EndToEnd) is not None:
            return
        kernels = [entry.id for entry in read_build(Path(build.path)).manifest.kernels]
        figures = make_end_to_end(build.id, _SPEEDUP_OF_BUILD, kernels)
        live = BuildStore(self._home).current()
        self._ledger.put_stage(ship.run_id, Stage.END_TO_END, figures.model_copy(update={"live_build": live}))
