"""The probes compute right in Triton's interpreter, and compile for a GPU that is not here."""

import json
import subprocess
import sys

import pytest


def test_every_probe_is_right_in_the_interpreter() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.compiler_agent.gpu_check.interpreted_probes"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    errors = json.loads(ran.stdout)
    assert len(errors) == 10
    assert max(errors.values()) <= 1, errors


@pytest.mark.parametrize("architecture", [90, 100])
def test_every_probe_compiles_for_a_gpu(architecture: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.compiler_agent.gpu_check.compiled_probes", str(architecture)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)) == 5
