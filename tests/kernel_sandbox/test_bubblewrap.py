"""BubblewrapSandbox keeps the contract."""

from pathlib import Path

import pytest
from sandbox_contract import SandboxContract

from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.sandbox import Limits, SandboxError


class TestBubblewrap(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls) -> BubblewrapSandbox:
        sandbox = BubblewrapSandbox()
        sandbox.check()
        return sandbox

    def test_a_folder_that_does_not_exist_is_refused(self, sandbox: BubblewrapSandbox) -> None:
        with pytest.raises(SandboxError, match="does not exist"):
            sandbox.open(Limits(), {Path("/no/such/folder"): "/given"})
