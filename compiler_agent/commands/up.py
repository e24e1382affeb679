"""`compiler-agent up`: the whole service on this machine, for as long as the command lives."""

import os

from compiler_agent.board_settings import read_board_settings
from compiler_agent.check_configuration import READERS
from compiler_agent.local_service import serve_locally
from compiler_agent.machine import require_machine
from compiler_agent.metrics_settings import read_metrics_settings
from compiler_agent.ordinary_user import require_ordinary_user
from compiler_agent.outcome import ExitCode, progress_console
from compiler_agent.settings import read_settings


def up() -> ExitCode:
    """Starts a Temporal server (or uses COMPILER_AGENT_TEMPORAL), a worker for each kind of queue, and the leaderboard.

    What ends is started again, after a wait that grows to a minute. TERM or Ctrl-C stops workers, leaderboard and
    server in this order. `compiler-agent status` says how they are; `compiler-agent run` goes through them.

    Example: compiler-agent --config /etc/compiler-agent.toml up
    """
    settings = read_settings()
    require_ordinary_user(settings, "`compiler-agent up`")
    board = read_board_settings(settings.home)
    for read in READERS.values():
        read(settings, os.environ)  # what is wrong is said once and now, not by a program that ends again and again
    require_machine(settings)
    serve_locally(settings, board, read_metrics_settings(), progress_console)
    return ExitCode.DONE
