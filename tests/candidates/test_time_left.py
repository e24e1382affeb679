from candidates.run import PromoteRequest, RunRequest, Stage, TuneRequest
from candidates.time_left import expected_seconds, seconds_left

RUN = RunRequest(traces=("t",), trace_digest="0", model="tiny")


def test_later_stages_are_left_whole() -> None:
    expected_s = {Stage.DEVICE: 10.0, Stage.SEARCH: 100.0, Stage.BUILD: 5.0}
    assert seconds_left(expected_s, Stage.DEVICE, 4.0) == 6 + 105
    assert seconds_left(expected_s, Stage.BUILD, 0.0) == 5


def test_a_stage_that_takes_longer_has_nothing_left() -> None:
    assert seconds_left({Stage.SEARCH: 100.0, Stage.BUILD: 5.0}, Stage.SEARCH, 1000.0) == 5


def test_a_stage_that_was_not_expected_takes_no_time() -> None:
    assert seconds_left({Stage.SEARCH: 100.0}, Stage.DEVICE, 3.0) == 100
    assert seconds_left({Stage.SEARCH: 100.0}, Stage.BUILD, 3.0) == 0


def test_stages_are_expected_in_their_order() -> None:
    requests = (
        RUN,
        PromoteRequest(**RUN.model_dump(), base_run="run-0", task_ids=("1",)),
        TuneRequest(task_id="1", op="Linear"),
    )
    for request in requests:
        stages = list(expected_seconds(request))
        assert stages == sorted(stages, key=list(Stage).index)
    assert list(expected_seconds(RUN)) == list(Stage)
