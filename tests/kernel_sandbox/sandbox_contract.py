"""What every sandbox must hold against, whatever it is made of."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel_sandbox.sandbox import Ending, Limits, Sandbox, SandboxError, SandboxSession

ABUSES = Path(__file__).with_name("abuses.cpp")
LIMITS = Limits(wall_s=10.0, cpu_s=10, memory_bytes=1 << 30, processes=20, scratch_bytes=32 << 20, log_bytes=4096)


class SandboxContract:
    """Subclasses give the fixture `sandbox` (scope class)."""

    @pytest.fixture(scope="class")
    @classmethod
    def abuses(cls, sandbox: Sandbox) -> bytes:
        with sandbox.open(Limits()) as session:
            session.put("abuses.cpp", ABUSES.read_bytes())
            finished = session.run(["g++", "-O1", "-o", "abuses", "abuses.cpp"])
            assert finished.exit_code == 0, finished.log
            return session.get("abuses")

    @pytest.fixture
    def session(self, sandbox: Sandbox, abuses: bytes) -> Iterator[SandboxSession]:
        with sandbox.open(LIMITS) as session:
            session.put("abuses", abuses)
            yield session

    def test_files_stay_between_put_run_and_get(self, session: SandboxSession) -> None:
        session.put("question", b"six times seven")
        assert session.run(["sh", "-c", "tr a-z A-Z < question > answer"]).exit_code == 0
        assert session.get("answer") == b"SIX TIMES SEVEN"

    def test_exit_status_and_log_come_back(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (finished.ending, finished.exit_code) == (Ending.EXITED, 3)
        assert "out" in finished.log
        assert "err" in finished.log

    def test_a_crash_is_told_from_an_exit(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "kill -SEGV $$"])
        assert (finished.ending, finished.exit_code) == (Ending.SIGNALED, 11)

    @pytest.mark.parametrize(
        "abuse", ["network", "trace", "write_outside", "nest", "mount", "become_root", "change_core", "hurry"]
    )
    def test_refuses(self, session: SandboxSession, abuse: str) -> None:
        finished = session.run(["/work/abuses", abuse])
        assert (finished.ending, finished.exit_code) == (Ending.EXITED, 1), finished.log

    def test_no_environment_of_the_launcher_shows_inside(
        self, session: SandboxSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PLANTED_SECRET", "do-not-show")
        finished = session.run(["sh", "-c", "env; cat /proc/*/environ"])
        assert "do-not-show" not in finished.log
        assert "PATH" in finished.log

    def test_files_of_the_host_are_not_there(self, session: SandboxSession, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("do-not-show")
        tmp_path.chmod(0o755)
        finished = session.run(["sh", "-c", f"cat {secret} /etc/passwd /etc/shadow /root/* /home/*/*"])
        assert finished.exit_code != 0
        assert "do-not-show" not in finished.log
        assert "root:" not in finished.log

    def test_processes_of_the_host_are_not_seen(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])
        assert int(finished.log) < 8

    def test_a_fork_bomb_is_bounded(self, session: SandboxSession) -> None:
        finished = session.run(["/work/abuses", "fork_bomb"])
        assert finished.exit_code == 1, finished.log

    def test_a_flood_of_output_keeps_its_tail_only(self, session: SandboxSession) -> None:
        finished = session.run(["/work/abuses", "flood"])
        assert finished.exit_code == 0
        assert len(finished.log) <= LIMITS.log_bytes
        assert finished.log.endswith("the end\n")

    def test_memory_is_bounded(self, session: SandboxSession) -> None:
        assert session.run(["/work/abuses", "eat_memory"]).ending is Ending.OUT_OF_MEMORY

    def test_scratch_is_bounded(self, session: SandboxSession) -> None:
        finished = session.run(["/work/abuses", "fill_scratch"])
        assert (finished.ending is Ending.EXITED and finished.exit_code == 1) or finished.ending is Ending.SIGNALED

    def test_a_large_file_is_bounded(self, session: SandboxSession) -> None:
        finished = session.run(["dd", "if=/dev/zero", "of=/work/large", "bs=1M", "count=100"])
        assert finished.exit_code != 0

    def test_a_program_that_ignores_signals_ends_at_its_time_limit(self, sandbox: Sandbox, abuses: bytes) -> None:
        with sandbox.open(Limits(wall_s=0.3)) as session:
            session.put("abuses", abuses)
            assert session.run(["/work/abuses", "ignore_term"]).ending is Ending.TIMED_OUT

    def test_processor_time_is_bounded(self, sandbox: Sandbox) -> None:
        with sandbox.open(Limits(cpu_s=1, wall_s=20.0)) as session:
            assert session.run(["sh", "-c", "while :; do :; done"]).ending is Ending.TIMED_OUT

    def test_a_daemon_does_not_outlive_its_program(self, session: SandboxSession) -> None:
        assert session.run(["/work/abuses", "outlive"]).exit_code == 0
        session.get("alive")
        assert session.run(["rm", "/work/alive"]).exit_code == 0
        with pytest.raises(SandboxError):
            session.get("alive")

    @pytest.mark.parametrize("abuse", ["link_output", "pipe_output"])
    def test_takes_out_plain_files_only(self, session: SandboxSession, abuse: str) -> None:
        assert session.run(["/work/abuses", abuse]).exit_code == 0
        with pytest.raises(SandboxError):
            session.get("output")

    def test_takes_out_no_more_than_asked_for(self, session: SandboxSession) -> None:
        session.run(["dd", "if=/dev/zero", "of=/work/output", "bs=1k", "count=9"])
        with pytest.raises(SandboxError):
            session.get("output", limit_bytes=8 << 10)

    def test_put_replaces_a_link_and_never_follows_it(self, session: SandboxSession) -> None:
        assert session.run(["/work/abuses", "link_output"]).exit_code == 0
        session.put("output", b"ours")
        assert session.get("output") == b"ours"

    def test_nothing_is_left_of_locked_and_deep_folders(self, sandbox: Sandbox, abuses: bytes) -> None:
        with sandbox.open(LIMITS) as session:
            session.put("abuses", abuses)
            assert session.run(["/work/abuses", "lock_folders"]).exit_code == 0

    def test_a_started_program_talks_and_is_killed(self, session: SandboxSession) -> None:
        process = session.start(["cat"])
        process.stdin.write(b"hello")
        assert process.stdout.read(5) == b"hello"
        finished = process.kill()
        assert process.kill() == finished

    def test_a_started_program_keeps_its_own_ending(self, session: SandboxSession) -> None:
        process = session.start(["sh", "-c", "exit 7"])
        assert process.stdout.read(1) == b""
        assert process.kill(grace_s=5.0).exit_code == 7

    def test_a_started_program_inherits_the_descriptors_named(self, session: SandboxSession) -> None:
        descriptor = os.memfd_create("message")
        os.write(descriptor, b"for you")
        process = session.start(["cat", f"/proc/self/fd/{descriptor}"], file_descriptors=[descriptor])
        os.close(descriptor)
        assert process.stdout.read(7) == b"for you"

    def test_a_started_program_stays_on_its_core(self, session: SandboxSession) -> None:
        core = max(os.sched_getaffinity(0))
        process = session.start(["sh", "-c", "taskset -p -c 0-999 $$ >&2; taskset -p -c $$"], core=core)
        assert process.stdout.read(200).split()[-1] == str(core).encode()

    def test_processor_time_is_told(self, session: SandboxSession) -> None:
        process = session.start(["sh", "-c", "while :; do :; done"])
        _wait_for(lambda: process.cpu_time_ns() > 20_000_000)
        process.freeze()
        used_ns = process.cpu_time_ns()
        time.sleep(0.02)
        assert process.cpu_time_ns() == used_ns

    def test_frozen_means_that_nothing_runs(self, session: SandboxSession) -> None:
        script = "(while :; do echo x >> /work/ticks; done) & while :; do echo x >> /work/ticks; done"
        process = session.start(["sh", "-c", script])
        _wait_for(lambda: len(session.get("ticks")) > 0)
        process.freeze()
        ticks = session.get("ticks")
        time.sleep(0.05)
        assert session.get("ticks") == ticks
        process.thaw()
        _wait_for(lambda: len(session.get("ticks")) > len(ticks))

    def test_read_only_folders_are_seen_and_not_changed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "shown").write_text("shown")
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        with sandbox.open(LIMITS, {tmp_path: "/given"}) as session:
            finished = session.run(["sh", "-c", "cat /given/shown; echo changed > /given/shown"])
        assert finished.log.startswith("shown")
        assert finished.exit_code != 0
        assert (tmp_path / "shown").read_text() == "shown"


def _wait_for(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        try:
            if condition():
                return
        except SandboxError:
            pass
        time.sleep(0.005)
    pytest.fail("it did not happen")
