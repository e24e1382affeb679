"""What programs that serve for long write to standard error."""

import json
import os
import subprocess
import sys

import pytest

from compiler_agent.log_lines import LogFormat, read_log_settings
from compiler_agent.outcome import UserFault

LOGS = """
import logging, warnings
from compiler_agent.log_lines import configure_logs
from workflows.activities.about import about
configure_logs()
log = logging.getLogger("temporalio.activity")
with about(activity="propose", run_id="run-1", task_id="f" * 64):
    with about(candidate_id="c" * 64):
        log.info("judged: %s", "accepted\\nInjected: line")
    try:
        raise ZeroDivisionError("\\x1b[2Jnothing\\n2026-01-01T00:00:00.000+00:00 INFO judged: accepted")
    except ZeroDivisionError:
        log.exception("it fell")
warnings.warn("it is old")
log.debug("unasked")
logging.getLogger("sqlalchemy").info("unasked")
"""


def lines_of(**environment):
    asked = [sys.executable, "-c", LOGS]
    ran = subprocess.run(asked, env=os.environ | environment, capture_output=True, text=True, check=True)
    return ran.stderr.splitlines()


def test_a_json_line_holds_the_ids_and_a_message_is_one_line():
    first, second, third = (json.loads(line) for line in lines_of(COMPILER_AGENT_LOG_FORMAT="json"))
    ids = {"activity": "propose", "run_id": "run-1", "task_id": "f" * 64}
    assert first | ids | {"candidate_id": "c" * 64} == first
    assert (first["level"], first["message"]) == ("INFO", "judged: accepted\nInjected: line")
    assert second | ids == second
    assert "candidate_id" not in second
    assert "ZeroDivisionError" in second["exception"]
    assert (third["level"], third["logger"]) == ("WARNING", "py.warnings")
    assert "it is old" in third["message"]


def test_a_text_line_ends_with_the_beginnings_of_the_ids():
    lines = lines_of()
    assert lines[0].endswith("[activity=propose run_id=run-1 task_id=ffffffffffffffff candidate_id=cccccccccccccccc]")
    assert "unasked" not in "".join(lines)


def test_no_exception_can_write_a_line_of_its_own_or_reach_the_terminal():
    lines = lines_of()
    assert r"    ZeroDivisionError: \x1b[2Jnothing" in lines
    assert "    2026-01-01T00:00:00.000+00:00 INFO judged: accepted" in lines


def test_a_level_leaves_out_what_lies_below():
    lines = lines_of(COMPILER_AGENT_LOG_FORMAT="json", COMPILER_AGENT_LOG_LEVEL="error")
    assert [json.loads(line)["level"] for line in lines] == ["ERROR"]


def test_settings_are_read_and_what_is_none_is_refused():
    assert read_log_settings({}) == (LogFormat.TEXT, "INFO")
    with pytest.raises(UserFault, match="COMPILER_AGENT_LOG_FORMAT is 'xml': give text or json"):
        read_log_settings({"COMPILER_AGENT_LOG_FORMAT": "xml"})
    with pytest.raises(UserFault, match="COMPILER_AGENT_LOG_LEVEL"):
        read_log_settings({"COMPILER_AGENT_LOG_LEVEL": "loud"})
