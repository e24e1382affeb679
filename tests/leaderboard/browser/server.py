"""serve: `compiler-agent leaderboard` as a process of its own, over a home."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def serve(home: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address that the server says it listens at, with a slash at its end."""
    command = [sys.executable, "-m", "compiler_agent", "leaderboard", "--port", "0"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("COMPILER_AGENT_")}
    settings = {"COMPILER_AGENT_HOME": str(home), "COLUMNS": "400", "OMP_NUM_THREADS": "1", **(environment or {})}
    with subprocess.Popen(
        command, cwd=ROOT, env=ours | settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if (address := re.search(r"leaderboard at (\S+)", line)) is not None:
                    yield address.group(1)
                    break
            else:
                raise RuntimeError(f"the leaderboard did not start: {''.join(said)}")
        finally:
            process.terminate()
