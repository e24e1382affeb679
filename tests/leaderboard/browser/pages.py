"""paths_of: every page there is, by name, with something on it."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from tests.leaderboard.browser.past import Past

NAMES = (
    "home",
    "home-rejected",
    "op",
    "candidate",
    "candidate-rejected",
    "candidate-untried",
    "compare",
    "compare-form",
    "transcript",
    "runs",
    "run",
    "run-tuned",
    "run-exam",
    "run-failed",
    "run-running",
    "builds",
    "build",
    "build-refused",
    "build-diff",
)


def paths_of(past: Past) -> Mapping[str, str]:
    """Without the slash at their beginning."""
    op = quote(past.op, safe="")
    return {
        "home": "",
        "home-rejected": "?state=rejected&sort=speedup",
        "op": f"ops/{op}?{urlencode({'device': past.device_id})}",
        "candidate": f"candidates/{past.candidate}",
        "candidate-rejected": f"candidates/{past.rejected}",
        "candidate-untried": f"candidates/{past.untried}",
        "compare-form": "compare",
        "compare": f"compare?{urlencode({'a': past.candidate, 'b': past.rival})}",
        "transcript": f"candidates/{past.with_transcript}/transcript",
        "runs": "runs",
        "run": f"runs/{past.ended}",
        "run-tuned": f"runs/{past.tuned}",
        "run-exam": f"runs/{past.exam}",
        "run-failed": f"runs/{past.failed}",
        "run-running": f"runs/{past.running}",
        "builds": "builds",
        "build": f"builds/{past.live_build}",
        "build-refused": f"builds/{past.refused_build}",
        "build-diff": f"builds/{past.build_before}/diff?to={past.live_build}",
    }
