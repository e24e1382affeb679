"""What is read of counters, whatever lies in their folder, and what several processes counted together."""

import os

from candidates.serving_build.counters import MOST_BYTES, Counters, KernelCalls, add_up, counted_of

COUNTED = '{"build_id": "b", "obstacle": null, "failures": {}, "kernels": {}}'


def test_what_no_runtime_wrote_is_passed_over_and_waited_for_by_nobody(tmp_path):
    (tmp_path / "process-1.json").write_text(COUNTED)
    (tmp_path / "process-2.json").write_text(COUNTED.replace('"b"', '"c"'))
    (tmp_path / "text.json").write_bytes(b"\xff\x00{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "large.json").write_text(COUNTED + " " * MOST_BYTES)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "circle.json").symlink_to("circle.json")
    (tmp_path / "nowhere.json").symlink_to("missing")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    assert len(counted_of(tmp_path, "b")) == 1


def test_what_a_process_told_long_ago_is_left_out_where_that_is_asked_for(tmp_path):
    (tmp_path / "process-1.json").write_text(COUNTED)
    os.utime(tmp_path / "process-1.json", (1000.0, 1000.0))
    assert len(counted_of(tmp_path, "b", since_s=999.0)) == 1
    assert counted_of(tmp_path, "b", since_s=1001.0) == ()


def test_without_a_folder_nothing_was_counted(tmp_path):
    assert counted_of(tmp_path / "missing", "b") == ()


def test_processes_of_one_build_are_counted_together():
    one = KernelCalls(op="Linear", hits=2, misses=1, shapes={"tokens=1": 2}, missed_shapes={"tokens=9": 1})
    other = KernelCalls(op="Linear", hits=3, shapes={"tokens=1": 1, "tokens=2": 2}, switched_off="disagreed")
    total = add_up(
        [
            Counters(build_id="b", obstacle=None, failures={}, kernels={"k": one}),
            Counters(build_id="b", obstacle=None, failures={"m": "no file"}, kernels={"k": other, "n": one}),
        ]
    )
    assert total.kernels["n"] == one
    assert total.failures == {"m": "no file"}
    assert total.kernels["k"] == KernelCalls(
        op="Linear",
        hits=5,
        misses=1,
        shapes={"tokens=1": 3, "tokens=2": 2},
        missed_shapes={"tokens=9": 1},
        switched_off="disagreed",
    )
