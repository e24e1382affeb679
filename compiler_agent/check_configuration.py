"""check_configuration: whether every setting can be read, and whether what the settings name is there."""

import difflib
import functools
from collections.abc import Callable, Iterator, Mapping

from candidates.ledger.ledger import Ledger
from candidates.serving_build.signing import trusted_keys
from compiler_agent.board_settings import read_board_settings
from compiler_agent.digest_settings import read_digest_receiver
from compiler_agent.forge_settings import ForgeName, read_token
from compiler_agent.log_lines import read_log_settings
from compiler_agent.machine import Finding, examine_disk, examine_named_gpu, examine_sandbox, examine_temporal
from compiler_agent.metrics_settings import read_metrics_settings
from compiler_agent.models.endpoints import read_endpoints, read_key
from compiler_agent.retention_settings import read_retention_settings
from compiler_agent.setting_keys import KEYS, OTHERS_VARIABLES
from compiler_agent.settings import Settings, read_settings
from compiler_agent.temporal_security import read_temporal_security
from compiler_agent.temporal_status import read_temporal
from compiler_agent.user_faults import as_user_fault
from compiler_agent.webhook_settings import read_webhook_targets


def _read_models(settings: Settings, environment: Mapping[str, str]) -> None:
    for endpoint in read_endpoints(settings.home, environment):
        read_key(endpoint, environment)


def _read_forge(settings: Settings, environment: Mapping[str, str]) -> None:
    if settings.forge is not None and settings.forge.forge is ForgeName.GITHUB:
        read_token(settings.forge, environment)


READERS: Mapping[str, Callable[[Settings, Mapping[str, str]], object]] = {
    "leaderboard": lambda settings, environment: read_board_settings(settings.home, environment),
    "Temporal's credentials": lambda settings, environment: read_temporal_security(environment),
    "logs": lambda settings, environment: read_log_settings(environment),
    "metrics": lambda settings, environment: read_metrics_settings(environment),
    "webhooks": lambda settings, environment: read_webhook_targets(environment),
    "digest": lambda settings, environment: read_digest_receiver(environment),
    "forge": _read_forge,
    "retention": lambda settings, environment: read_retention_settings(environment),
    "trusted keys": lambda settings, environment: trusted_keys(settings.home, environment),
    "models": _read_models,
}
"""What parses variables beside `read_settings`, which all of them need."""


def check_configuration(environment: Mapping[str, str], *, tries: bool) -> tuple[Finding, ...]:
    """`tries`: what the settings name is tried too."""
    return (_check_names(environment), *_check_values(environment, tries))


def _check_names(environment: Mapping[str, str]) -> Finding:
    """A variable that nobody reads is most likely one that is misspelt."""
    known = {key.variable for key in KEYS}.union(OTHERS_VARIABLES)
    wrong = [name for name in sorted(environment) if name.startswith("COMPILER_AGENT_") and name not in known]
    near = {name: difflib.get_close_matches(name, known, n=1) for name in wrong}
    told = [f"{name} (did you mean {close[0]}?)" if close else name for name, close in near.items()]
    return Finding(
        name="names",
        is_there=not wrong,
        is_needed=True,
        detail=f"no settings: {', '.join(told)}" if wrong else "every key and variable is a setting",
        fix="unset them, or write them as `compiler-agent config show` does",
    )


def _check_values(environment: Mapping[str, str], tries: bool) -> Iterator[Finding]:
    found = _tried("settings", "can be read", lambda: read_settings(environment))
    yield found
    if not found.is_there:
        return
    settings = read_settings(environment)
    for name, read in READERS.items():
        yield _tried(name, "can be read", functools.partial(read, settings, environment))
    if tries:
        yield from _try(settings)


def _try(settings: Settings) -> Iterator[Finding]:
    home = examine_disk(settings)
    yield home
    if home.is_there or not settings.ledger_url.startswith("sqlite"):
        yield _tried("ledger", "can be opened", lambda: Ledger(settings.ledger_url))
    address, namespace = settings.temporal_address, settings.temporal_namespace
    if address is None:
        yield examine_temporal(settings)
    else:
        yield _tried("Temporal", f"{namespace} at {address}", lambda: read_temporal(address, namespace, ()))
    yield examine_sandbox(settings)
    if settings.gpu_uuid is not None:
        yield examine_named_gpu(settings)


def _tried(name: str, detail: str, act: Callable[[], object]) -> Finding:
    """Raises what is no fault of the user's."""
    try:
        act()
    except Exception as error:
        if (fault := as_user_fault(error)) is None:
            raise
        return Finding(name=name, is_there=False, is_needed=True, detail=fault)
    return Finding(name=name, is_there=True, is_needed=True, detail=detail)
