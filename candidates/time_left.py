"""expected_seconds, seconds_left: roughly what a run takes and what of it is left; only for display."""

from collections.abc import Mapping

from candidates.exam import ExamRequest
from candidates.run import PromoteRequest, RunRequest, Stage, TuneRequest

_AROUND_A_SEARCH_S = 40.0
"""Before each search baselines are timed; after it come a race and a confirmation."""


def expected_seconds(request: RunRequest | TuneRequest | ExamRequest) -> dict[Stage, float]:
    """What each stage of an embedded run takes, in their order."""
    match request:
        case PromoteRequest():
            return {Stage.BUILD: 5.0, Stage.END_TO_END: 60.0 + request.end_to_end_s + request.compile_s}
        case RunRequest():
            return {
                Stage.DEVICE: 10.0,
                Stage.REPLAY: 10.0,
                Stage.RANKING: 60.0,
                Stage.SEARCH: request.search_s + _AROUND_A_SEARCH_S * request.hot_ops,
                Stage.BUILD: 5.0,
                Stage.END_TO_END: 60.0 + request.end_to_end_s + request.compile_s,
            }
        case TuneRequest():
            return {Stage.SEARCH: request.search_s + _AROUND_A_SEARCH_S}
        case ExamRequest():
            return {Stage.SEARCH: (request.search_s + _AROUND_A_SEARCH_S) * len(request.tasks)}


def seconds_left(expected_s: Mapping[Stage, float], stage: Stage, in_stage_s: float) -> float:
    """`in_stage_s`: how long the run has been in `stage`. A stage that takes longer than expected has nothing left."""
    order = list(Stage)
    later = sum(seconds for other, seconds in expected_s.items() if order.index(other) > order.index(stage))
    return max(0.0, expected_s.get(stage, 0.0) - in_stage_s) + later
