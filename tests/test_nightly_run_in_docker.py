"""A whole run on the real model with `--sandbox docker`: every kernel and every model process in a container."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_engine import OwnEngine

from kernel_sandbox.docker_image import ImageName, record_image
from kernel_sandbox.docker_profile import OWNER_LABEL

COMMAND = (
    *(sys.executable, "-m", "compiler_agent", "run", "--json", "--sandbox", "docker"),
    *("--limit", "120", "--hot-ops", "2", "--search-seconds", "30", "--attempts", "4"),
    *("--end-to-end-seconds", "30", "--compile-seconds", "0"),
)
PATIENCE_S = 900


@pytest.mark.slow
@pytest.mark.long
def test_a_run_ships_what_won_in_containers(docker_engine: OwnEngine, tmp_path: Path) -> None:
    record_image(tmp_path, ImageName.CPU, docker_engine.image_id)
    environment = os.environ | {
        "COMPILER_AGENT_HOME": str(tmp_path),
        "DOCKER_HOST": docker_engine.engine.address,
    }
    finished = subprocess.run(COMMAND, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    assert finished.returncode in (0, 1), finished.stderr.decode()
    report = json.loads(finished.stdout)
    won = [op for op in report["hot_ops"] if op["decision"] in ("shipped", "won_not_shipped")]
    assert won
    assert all(op["speedup_over_best"] > 1.03 for op in won)
    end_to_end = report["end_to_end"]
    assert end_to_end["kl_divergence"] < 1e-4
    assert end_to_end["greedy_agreement"] == 1.0
    assert all(hits > 0 for hits in end_to_end["hits"].values())
    assert not docker_engine.engine.containers_with(OWNER_LABEL)
