"""A run whose server, database and workers are killed again and again ends as if nobody had touched it."""

import logging
import os
import random
import subprocess
import sys
import time

import pytest

from candidates.ledger.ledger import Ledger
from tests.workflows.chaos import picture_of, programs_of
from tests.workflows.null_runs import Run, undisturbed
from tests.workflows.restarted import Service, open_folder

KILLS, SEED = 30, 8
RUN = Run(seed=SEED, hot_ops=6, candidates_per_op=40)
OPTIONS = ("--generation=4", "--sandboxed", "--measuring-s=0.01", "--source-bytes=1000")
LOCKS = ("device.lock", "device.gate", "device.core.lock", "device.core.gate")
KEPT = (*(f"compiler-agent-{name}" for name in LOCKS), "torchinductor_")
"""What stays among the temporary files of a machine: the device's locks, and torch's cache."""


def disturb(service, ledger):
    """Kills all programs in turn, in a random order, each when a random share of the work is done; the last ones while
    the run ships."""
    chance, names = random.Random(SEED), list(service.programs)
    victims = [names[number % len(names)] for number in range(KILLS)]
    chance.shuffle(victims)
    moments = sorted(chance.uniform(0.02, 0.98) * RUN.attempts for _ in victims[3:])
    for victim, moment in zip(victims, [*moments, *[RUN.attempts] * 3], strict=True):
        RUN.await_work(service.address, ledger, moment)
        time.sleep(chance.uniform(0.0, 0.3))
        while not service.programs[victim].kill():
            time.sleep(0.01)
        logging.info("%s killed at %.0f", victim, moment)


@pytest.mark.slow
def test_chaos_run_equals_undisturbed(tmp_path):
    expected = undisturbed(RUN, tmp_path, OPTIONS)
    with open_folder() as folder:
        service = Service(folder, *OPTIONS)
        with service.running():
            ledger = Ledger(service.settings.ledger_url)
            RUN.begin(service.address, ledger)
            disturb(service, ledger)
            RUN.await_work(service.address, ledger, None)
            found = picture_of(ledger)
            ledger.engine.dispose()
        for table, facts in expected.items():
            assert found[table] == facts, table
        assert not programs_of(folder)
        assert not left_in(folder, service.temporary)


def left_in(folder, temporary):
    """Temporary files; what killed programs left of sandboxes goes with the next one."""
    sweep = "from kernel_sandbox.bubblewrap import BubblewrapSandbox; BubblewrapSandbox().check()"
    subprocess.run([sys.executable, "-c", sweep], check=True, env=os.environ | {"TMPDIR": str(temporary)})
    left = [path for path in folder.rglob("*") if path.name.startswith((".partial-", ".unfinished-", ".current-"))]
    return left + [path for path in temporary.iterdir() if not path.name.startswith(KEPT)]
