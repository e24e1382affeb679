"""What every sandbox must hold against, whatever it is made of: abuses, each with a typed end and nothing left."""

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from abuse_cases import ABUSES, LIMITS, Abuse
from sandbox_surroundings import HostServices, descendants, end_of, put_all, traces_of_sandboxes, wait_for

from kernel_sandbox.sandbox import Ending, Limits, Sandbox, SandboxError, SandboxSession

SOURCES = Path(__file__).with_name("abuses")


class SandboxContract:
    """Subclasses give the fixtures `sandbox` and `holds_whole_trees` (scope class)."""

    @pytest.fixture(scope="class")
    @classmethod
    def programs(cls, sandbox: Sandbox) -> dict[str, bytes]:
        with sandbox.open(Limits()) as session:
            for source in SOURCES.iterdir():
                session.put(source.name, source.read_bytes())
                compiled = session.run(["g++", "-O1", "-pthread", "-o", source.stem, source.name])
                assert compiled.exit_code == 0, compiled.log
            return {source.stem: session.get(source.stem) for source in SOURCES.iterdir()}

    @pytest.fixture(autouse=True)
    def _nothing_is_left(self, programs: dict[str, bytes]) -> Iterator[None]:
        gc.collect()  # sandboxes of earlier tests remove their unpacked programs when they are collected
        before = self.traces()
        yield
        after = self.traces()
        assert after == before, {kind: (before[kind], left) for kind, left in after.items() if left != before[kind]}

    def traces(self) -> dict[str, object]:
        """What of its sandboxes can be seen from here, by kind."""
        return traces_of_sandboxes()

    def around(self, others: list[int]) -> tuple[int, int]:
        """(launcher, program): processes of the one program that was started since there were `others` below us."""
        launcher, *_, program = (pid for pid in descendants() if pid not in others)
        return launcher, program

    @pytest.fixture
    def session(self, sandbox: Sandbox, programs: dict[str, bytes]) -> Iterator[SandboxSession]:
        with sandbox.open(LIMITS) as session:
            put_all(session, programs)
            yield session

    # ---- what it is for

    def test_files_stay_between_put_run_and_get(self, session: SandboxSession) -> None:
        session.put("question", b"six times seven")
        assert session.run(["sh", "-c", "tr a-z A-Z < question > answer"]).exit_code == 0
        assert session.get("answer") == b"SIX TIMES SEVEN"

    def test_exit_status_and_log_come_back(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (finished.ending, finished.exit_code) == (Ending.EXITED, 3)
        assert "out" in finished.log
        assert "err" in finished.log

    def test_a_program_that_is_not_there_reads_as_in_a_shell(self, session: SandboxSession) -> None:
        finished = session.run(["no-such-program"])
        assert (finished.ending, finished.exit_code) == (Ending.EXITED, 127)

    def test_a_crash_is_told_from_an_exit(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "kill -SEGV $$"])
        assert (finished.ending, finished.exit_code) == (Ending.SIGNALED, 11)

    def test_read_only_folders_are_seen_and_not_changed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "shown").write_text("shown")
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        with sandbox.open(LIMITS, {tmp_path: "/given"}) as session:
            finished = session.run(["sh", "-c", "cat /given/shown; echo changed > /given/shown"])
        assert finished.log.startswith("shown")
        assert finished.exit_code != 0
        assert (tmp_path / "shown").read_text() == "shown"

    # ---- acts that are refused

    @pytest.mark.parametrize("abuse", ABUSES.values(), ids=ABUSES)
    def test_sandbox_abuse(self, sandbox: Sandbox, programs: dict[str, bytes], abuse: Abuse) -> None:
        """Each comes to its typed ending, and leaves nothing behind (`_nothing_is_left`)."""
        with sandbox.open(abuse.limits) as session, HostServices() as arguments:
            put_all(session, programs)
            argv = [*abuse.argv, *arguments.get(abuse.argv[-1], ())]
            if abuse.is_started:
                process = session.start(argv)
                process.stdout.read()
                finished = process.kill(grace_s=5.0)
            else:
                finished = session.run(argv)
        expected = finished.exit_code if abuse.exit_code is None else abuse.exit_code
        assert (finished.ending, finished.exit_code) == (abuse.ending, expected), finished.log
        assert len(finished.log) <= abuse.limits.log_bytes

    def test_set_user_id_programs_gain_nothing(self, session: SandboxSession) -> None:
        status = dict(
            line.split(":\t", 1)
            for line in session.run(["cat", "/proc/self/status"]).log.splitlines()
            if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "Uid"))
        )
        assert {int(value, 16) for name, value in status.items() if name.startswith("Cap")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert "0" not in status["Uid"].split()
        is_ignored = "nosuid" in session.run(["grep", " /usr ", "/proc/mounts"]).log
        assert is_ignored or not session.run(["find", "/usr", "-perm", "/6000", "-type", "f"]).log

    def test_a_program_of_root_is_not_root_outside(self, session: SandboxSession) -> None:
        status = self.seen_from_outside(session)
        assert "0" not in status["Uid"].split()
        assert {int(value, 16) for name, value in status.items() if name.startswith("Cap")} == {0}
        assert status["NoNewPrivs"] == "1"

    def seen_from_outside(self, session: SandboxSession) -> dict[str, str]:
        """What the kernel tells us of a program that runs in the session."""
        others = descendants()
        process = session.start(["cat"])
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        _, program = self.around(others)
        told = Path(f"/proc/{program}/status").read_text()
        process.kill()
        return dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)

    @pytest.mark.parametrize("start", [False, True])
    def test_no_environment_of_the_launcher_shows_inside(
        self, session: SandboxSession, monkeypatch: pytest.MonkeyPatch, start: bool
    ) -> None:
        monkeypatch.setenv("PLANTED_SECRET", "do-not-show")
        command = ["sh", "-c", "env; cat /proc/*/environ"]
        log = session.start(command).stdout.read().decode() if start else session.run(command).log
        assert "do-not-show" not in log
        assert "PATH" in log

    def test_files_of_the_host_are_not_there(self, session: SandboxSession, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("do-not-show")
        tmp_path.chmod(0o755)
        finished = session.run(["sh", "-c", f"cat {secret} /etc/passwd /etc/shadow /root/* ~/.ssh/* /home/*/*"])
        assert finished.exit_code != 0
        assert "do-not-show" not in finished.log
        assert "root:" not in finished.log

    def test_processes_of_the_host_are_not_seen(self, session: SandboxSession) -> None:
        finished = session.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])
        assert int(finished.log) < 8

    @pytest.mark.parametrize("start", [False, True])
    def test_no_descriptor_of_ours_is_open_inside(self, session: SandboxSession, start: bool) -> None:
        command = ["sh", "-c", "ls /proc/[0-9]*/fd | sort -u"]
        log = session.start(command).stdout.read().decode() if start else session.run(command).log
        numbers = {int(word) for word in log.split() if word.isdecimal()}
        # 3 is the folder that `ls` reads; 10 is where a shell keeps its script.
        assert numbers <= {0, 1, 2, 3, 4, 10} or not start, log

    # ---- taking more than was given

    def test_memory_of_many_small_ones_is_bounded(self, session: SandboxSession, holds_whole_trees: bool) -> None:
        if not holds_whole_trees:
            return  # it says so: see Limits.memory_bytes
        assert session.run(["/scratch/exhaustion", "eat_memory_together"]).ending is Ending.OUT_OF_MEMORY

    def test_processor_time_of_many_is_bounded(
        self, sandbox: Sandbox, programs: dict[str, bytes], holds_whole_trees: bool
    ) -> None:
        with sandbox.open(Limits(cpu_s=1, wall_s=3.0)) as session:
            put_all(session, programs)
            finished = session.run(["/scratch/exhaustion", "burn_together"])
        assert finished.ending is Ending.TIMED_OUT
        assert finished.wall_s < 2.5 or not holds_whole_trees

    def test_a_large_file_is_bounded(self, session: SandboxSession) -> None:
        finished = session.run(["dd", "if=/dev/zero", "of=/scratch/large", "bs=1M", "count=100"])
        assert finished.exit_code != 0

    def test_without_scratch_nothing_can_be_written(self, sandbox: Sandbox) -> None:
        with sandbox.open(Limits(scratch_bytes=0)) as session:
            script = "for f in /scratch /tmp /dev/shm /dev / ; do echo x > $f/x && echo wrote; done"
            finished = session.run(["sh", "-c", script])
        assert "wrote" not in finished.log

    @pytest.mark.parametrize("abuse", ["flood", "flood_stdout", "flood_stderr"])
    def test_a_flood_of_output_keeps_its_tail_only(self, session: SandboxSession, abuse: str) -> None:
        finished = session.run(["/scratch/exhaustion", abuse])
        assert finished.exit_code == 0
        assert len(finished.log) <= LIMITS.log_bytes
        assert finished.log.endswith("the end\n")

    # ---- not ending

    def test_a_daemon_does_not_outlive_its_program(self, session: SandboxSession) -> None:
        assert session.run(["/scratch/exhaustion", "outlive"]).exit_code == 0
        session.get("alive")
        assert session.run(["rm", "/scratch/alive"]).exit_code == 0
        with pytest.raises(SandboxError):
            session.get("alive")

    # ---- what is left for us and for the next program

    @pytest.mark.parametrize("kind", ["link", "climbing_link", "hard_link", "pipe", "socket", "device", "folder"])
    def test_takes_out_plain_files_only(self, session: SandboxSession, kind: str) -> None:
        assert session.run(["/scratch/exhaustion", f"{kind}_output"]).exit_code == 0
        with pytest.raises(SandboxError):
            session.get("output")

    def test_takes_out_no_more_than_asked_for(self, session: SandboxSession) -> None:
        session.run(["dd", "if=/dev/zero", "of=/scratch/output", "bs=1k", "count=9"])
        with pytest.raises(SandboxError):
            session.get("output", limit_bytes=8 << 10)

    @pytest.mark.parametrize("name", ["../output", "/etc/passwd", "..", "a/b"])
    def test_names_cannot_climb(self, session: SandboxSession, name: str) -> None:
        with pytest.raises(ValueError, match="plain file name"):
            session.get(name)

    def test_put_replaces_a_link_and_never_follows_it(self, session: SandboxSession) -> None:
        assert session.run(["/scratch/exhaustion", "link_output"]).exit_code == 0
        session.put("output", b"ours")
        assert session.get("output") == b"ours"

    def test_what_one_program_plants_does_not_reach_the_next(self, session: SandboxSession) -> None:
        plant = (
            "export LD_PRELOAD=/scratch/evil.so PYTHONPATH=/scratch; echo /scratch/evil.so > /etc/ld.so.preload;"
            " for f in evil.so libc.so.6 sitecustomize.py .profile true; do echo 'echo reached' > $f; chmod +x $f; done"
        )
        session.run(["sh", "-c", plant])
        finished = session.run(["true"])
        assert (finished.ending, finished.exit_code, finished.log) == (Ending.EXITED, 0, "")
        assert "/scratch" not in session.run(["sh", "-c", "echo $LD_PRELOAD $LD_LIBRARY_PATH $PYTHONPATH $PATH"]).log

    # ---- started programs

    def test_a_started_program_talks_and_is_killed(self, session: SandboxSession) -> None:
        process = session.start(["cat"])
        process.stdin.write(b"hello")
        assert process.stdout.read(5) == b"hello"
        finished = process.kill()
        assert process.kill() == finished

    def test_a_started_program_keeps_its_own_ending(self, session: SandboxSession) -> None:
        assert end_of(session.start(["sh", "-c", "exit 7"])) == (Ending.EXITED, 7)

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
        wait_for(lambda: process.cpu_time_ns() > 20_000_000)
        process.freeze()
        time.sleep(0.02)  # the kernel may add a tick that it had not counted yet
        used_ns = process.cpu_time_ns()
        time.sleep(0.02)
        assert process.cpu_time_ns() == used_ns

    def test_frozen_means_that_nothing_runs(self, session: SandboxSession) -> None:
        script = "(while :; do echo x >> /scratch/ticks; done) & while :; do echo x >> /scratch/ticks; done"
        process = session.start(["sh", "-c", script])
        wait_for(lambda: len(session.get("ticks")) > 0)
        process.freeze()
        ticks = session.get("ticks")
        time.sleep(0.05)
        assert session.get("ticks") == ticks
        process.thaw()
        wait_for(lambda: len(session.get("ticks")) > len(ticks))

    # ---- whose fault

    @pytest.mark.parametrize("victim", ["program", "launcher"])
    def test_a_program_killed_from_outside_is_a_failure_of_machinery(
        self, session: SandboxSession, victim: str
    ) -> None:
        others = descendants()
        process = session.start(["cat"])
        process.stdin.write(b"x")
        process.stdout.read(1)
        launcher, program = self.around(others)
        os.kill(program if victim == "program" else launcher, signal.SIGKILL)
        assert process.stdout.read(1) == b""
        for _ in range(2):
            with pytest.raises(SandboxError, match="killed"):
                process.kill(grace_s=5.0)

    def test_a_disk_without_room_is_a_failure_of_machinery(self, sandbox: Sandbox) -> None:
        with sandbox.open(Limits(scratch_bytes=1 << 60)) as session, pytest.raises(SandboxError, match="free"):
            session.run(["true"])
