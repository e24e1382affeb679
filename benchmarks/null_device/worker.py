"""A worker of the null device: `python -m benchmarks.null_device.worker --queue control --queue device …`.

Home, ledger and server are told as to any worker, by COMPILER_AGENT_HOME, _LEDGER and _TEMPORAL.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from sqlalchemy import Engine, event

from benchmarks.null_device.services import QUEUES, Effort, null_services
from compiler_agent.log_lines import configure_logs
from compiler_agent.settings import read_settings
from compiler_agent.telemetry import metrics_config
from compiler_agent.worker import connect, serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.null_device.worker", description=__doc__)
    parser.add_argument("--queue", action="append", choices=QUEUES, required=True)
    parser.add_argument("--generation", type=int, default=10, help="candidates of one proposal")
    parser.add_argument("--source-bytes", type=int, default=6_000)
    parser.add_argument("--measuring-s", type=float, default=0.0, help="that each measurement takes")
    parser.add_argument("--times", type=Path, help="file for when each measurement began and ended")
    parser.add_argument("--sandboxed", action="store_true", help="builds copy within the real sandbox")
    parser.add_argument("--count", type=Path, help="file for how many statements the database was asked")
    arguments = parser.parse_args()
    effort = Effort(
        generation=arguments.generation,
        source_bytes=arguments.source_bytes,
        measuring_s=arguments.measuring_s,
        is_sandboxed=arguments.sandboxed,
        times=arguments.times,
    )
    configure_logs()
    settings = read_settings()
    if settings.temporal_address is None:
        sys.exit("a worker needs a server: set COMPILER_AGENT_TEMPORAL to host:port")
    address, namespace = settings.temporal_address, settings.temporal_namespace
    statements = 0

    @event.listens_for(Engine, "before_cursor_execute")
    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    services = null_services(settings, effort, arguments.queue)

    async def run() -> None:
        await serve(await connect(address, namespace, metrics_config()), services)

    asyncio.run(run())
    if arguments.count is not None:
        arguments.count.write_text(json.dumps(statements))


if __name__ == "__main__":
    main()
