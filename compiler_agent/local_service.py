"""serve_locally: the service on one machine: workflow server, leaderboard, a worker for each kind of queue.

One command holds a home, and nothing of it outlives the command, whatever ends it.
"""

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from candidates.ledger.ledger import Ledger
from candidates.record import digest_of
from compiler_agent import readiness
from compiler_agent.board_settings import BoardSettings
from compiler_agent.home_lock import hold_home
from compiler_agent.metrics_settings import SERVICE, WORKER, Address, MetricsSettings
from compiler_agent.outcome import UserFault
from compiler_agent.program_health import (
    ProgramHealth,
    ProgramState,
    Service,
    UpHealth,
    remove_up_health,
    write_up_health,
)
from compiler_agent.settings import Settings
from compiler_agent.supervisor import NeverReady, Program, Supervisor
from compiler_agent.temporal_server import (
    STOP_PATIENCE_S,
    TemporalUnavailable,
    answers,
    dev_server_command,
    free_port,
)
from compiler_agent.worker_programs import WORKER_PATIENCE_S, queue_names, worker_command, worker_environment

BOARD_PATIENCE_S = 10.0


def serve_locally(settings: Settings, board: BoardSettings, metrics: MetricsSettings, console: Console) -> None:
    """Until TERM, INT or HUP. Raises HomeTaken where another `up` or `run` has the home, UserFault for an address that
    is taken, and TemporalUnavailable."""
    with hold_home(settings.home, "up"), _stop_signals() as stop:
        board = replace(board, port=board.port or free_port())
        _require_packages(metrics)
        _require_free(settings, board, metrics)
        address = settings.temporal_address or f"127.0.0.1:{free_port()}"
        if settings.temporal_address is not None and not answers(address):
            raise TemporalUnavailable(
                f"no Temporal server answers at {address} (COMPILER_AGENT_TEMPORAL): start it, or unset the variable, "
                "and one is started here"
            )
        Ledger(settings.ledger_url)  # what is wrong with it is said at once, and its tables made by one alone
        health = UpHealth(
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            service=service_of(settings, address),
            leaderboard=f"http://{board.host}:{board.port}/",
            programs=(),
        )
        try:
            programs = _programs(settings, board, metrics, address)
            with Supervisor(programs, _Teller(settings, health, console).tell) as supervisor:
                supervisor.watch(stop.is_set)
        except NeverReady as fault:
            raise UserFault(str(fault)) from fault
        finally:
            remove_up_health(settings.home)


def service_of(settings: Settings, address: str) -> Service:
    return Service(
        temporal_address=address,
        temporal_namespace=settings.temporal_namespace,
        ledger_digest=digest_of(settings.ledger_url),
        sandbox=settings.sandbox,
        gpu_uuid=settings.gpu_uuid,
    )


def other_settings(settings: Settings, health: UpHealth) -> tuple[str, ...]:
    """What that `up` serves with and these settings name another of."""
    wanted = service_of(settings, settings.temporal_address or health.service.temporal_address).model_dump()
    served = health.service.model_dump()
    return tuple(name.removesuffix("_digest") for name, value in served.items() if value != wanted[name])


class _Teller:
    """Who hears of changes: the terminal, `up.json`, and a service manager."""

    def __init__(self, settings: Settings, health: UpHealth, console: Console) -> None:
        self._home, self._health, self._console = settings.home, health, console

    def tell(self, programs: tuple[ProgramHealth, ...], line: str) -> None:
        self._health = self._health.model_copy(update={"programs": programs})
        ready = sum(program.state is ProgramState.READY for program in programs)
        try:
            write_up_health(self._home, self._health)
        except OSError as error:  # a full disk is no reason to end what works
            line += f"; cannot write up.json: {error.strerror}"
        readiness.tell(is_ready=self._health.is_ready, status=f"{ready} of {len(programs)} ready; {line}")
        # Last, as it may fail: others read what is above.
        self._console.print(
            f"{datetime.now(UTC):%H:%M:%SZ} {line} · {ready} of {len(programs)} ready",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _programs(settings: Settings, board: BoardSettings, metrics: MetricsSettings, address: str) -> tuple[Program, ...]:
    environment = worker_environment(settings, address)
    server = Program(
        name="temporal",
        argv=() if settings.temporal_address is not None else tuple(dev_server_command(settings, _port_of(address))),
        environment=os.environ,
        log=settings.logs / "temporal.log",
        stage=0,
        is_awaited=True,
        stop_patience_s=STOP_PATIENCE_S,
        answers=lambda: answers(address),
    )
    page = Program(
        name="leaderboard",
        argv=(
            *(sys.executable, "-m", "compiler_agent", "leaderboard"),
            *("--host", board.host, "--port", str(board.port)),
        ),
        environment=environment,
        log=settings.logs / "leaderboard.log",
        stage=1,
        stop_patience_s=BOARD_PATIENCE_S,
    )
    figures = Program(
        name="metrics",
        argv=(sys.executable, "-m", "compiler_agent", "metrics"),
        environment=environment,
        log=settings.logs / "metrics.log",
        stage=1,
        stop_patience_s=BOARD_PATIENCE_S,
    )
    workers = (
        Program(
            name=f"worker {queue}",
            argv=worker_command([queue]),
            environment=environment | _metrics_of_worker(metrics, number),
            log=settings.logs / f"worker-{queue}.log",
            stage=2,
            stop_patience_s=WORKER_PATIENCE_S,
        )
        for number, queue in enumerate(queue_names(settings))
    )
    return (*((server,) if server.argv else ()), page, *((figures,) if metrics.service else ()), *workers)


def _metrics_of_worker(metrics: MetricsSettings, number: int) -> dict[str, str]:
    address = _worker_address(metrics, number)
    return {} if address is None else {WORKER: str(address)}


def _worker_address(metrics: MetricsSettings, number: int) -> Address | None:
    """Workers of one machine have a port each."""
    return None if metrics.worker is None else Address(metrics.worker.host, metrics.worker.port + number)


def _require_packages(metrics: MetricsSettings) -> None:
    """Before anything is started: a program without them would be started again and again."""
    needed = [("the leaderboard", "uvicorn", "leaderboard")]
    if metrics.service is not None:
        needed.append((f"metrics ({SERVICE})", "prometheus_client", "telemetry"))
    missing = [each for each in needed if importlib.util.find_spec(each[1]) is None]
    if missing:
        told = "; ".join(f"{what} needs {package}" for what, package, _ in missing)
        raise UserFault(f"{told}: pip install 'compiler-agent[{','.join(extra for _, _, extra in missing)}]'")


def _require_free(settings: Settings, board: BoardSettings, metrics: MetricsSettings) -> None:
    """Before anything is started: what cannot listen would be started again and again."""
    wanted = [
        ("the leaderboard", Address(board.host, board.port), "COMPILER_AGENT_LEADERBOARD_PORT"),
        ("the metrics", metrics.service, SERVICE),
        *(
            (f"the metrics of worker {queue}", _worker_address(metrics, number), WORKER)
            for number, queue in enumerate(queue_names(settings))
        ),
    ]
    with contextlib.ExitStack() as held:  # all at once, so that two of ours are not told the same port
        for name, address, variable in wanted:
            if address is None:
                continue
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            try:
                held.enter_context(socket.create_server((address.host, address.port), family=family))
            except (OSError, OverflowError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise UserFault(
                    f"{name} cannot listen at {address} ({reason}): another `up` may be there; set {variable}"
                ) from error


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Set by what asks a service to end; a second one changes nothing, since every end has its time limit."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
