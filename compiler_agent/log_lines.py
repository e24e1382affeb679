"""Log lines of programs that serve for long, on standard error: text, or a JSON object each, with the ids of what they
are about.
"""

import json
import logging
import os
import sys
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from temporalio import activity, workflow

from candidates.printable import printable
from compiler_agent.outcome import UserFault
from workflows.activities.about import current_ids

FORMAT, LEVEL = "COMPILER_AGENT_LOG_FORMAT", "COMPILER_AGENT_LOG_LEVEL"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def configure_logs(environment: Mapping[str, str] = os.environ) -> None:
    """For the whole process, once. Raises UserFault."""
    log_format, level = read_log_settings(environment)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format is LogFormat.JSON else _TextLines())
    logging.basicConfig(
        level=max(logging.WARNING, logging.getLevelNamesMapping()[level]), handlers=[handler], force=True
    )
    logging.captureWarnings(True)
    # Ids are fields of a line, not part of its message.
    activity.logger.activity_info_on_message = workflow.logger.workflow_info_on_message = False
    # What libraries say of their daily business is not asked for.
    for name in ("compiler_agent", "leaderboard", "temporalio.activity", "temporalio.workflow"):
        logging.getLogger(name).setLevel(level)


def read_log_settings(environment: Mapping[str, str] = os.environ) -> tuple[LogFormat, str]:
    """Format and level. Raises UserFault."""
    word, level = environment.get(FORMAT) or LogFormat.TEXT, (environment.get(LEVEL) or "INFO").upper()
    if word not in list(LogFormat):
        raise UserFault(f"{FORMAT} is {word!r}: give {' or '.join(LogFormat)}")
    if level not in _LEVELS:
        raise UserFault(f"{LEVEL} is {level!r}: give one of {', '.join(_LEVELS)}")
    return LogFormat(word), level


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value[:16]}" for name, value in _ids(record).items() if name != "workflow_id")
        message = printable(record.getMessage()).replace("\n", "\\n")
        line = f"{_moment(record)} {record.levelname} {message}" + (f" [{ids}]" if ids else "")
        if not record.exc_info:
            return line
        # Indented, so that no message of an exception looks like a line of ours.
        return f"{line}\n{textwrap.indent(printable(self.formatException(record.exc_info)), '    ')}"


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _ids(record: logging.LogRecord) -> dict[str, str]:
    """Those of the activity that logs; of a workflow its own."""
    told = getattr(record, "temporal_activity", None) or getattr(record, "temporal_workflow", None) or {}
    workflow = {"workflow_id": str(told["workflow_id"])} if "workflow_id" in told else {}
    return {**workflow, **current_ids()}
