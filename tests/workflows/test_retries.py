"""Which failures of an activity are not tried again: Temporal compares names, so each must be that of a class."""

from candidates.builder import CompilerUnavailable
from candidates.forge import ForgeRefused
from candidates.judge.sanitizers import SanitizersUnavailable
from candidates.ledger.ledger import LedgerError
from candidates.ledger.tables import DoesNotFit
from candidates.serving_build.builds import BuildNotFound
from candidates.serving_build.counters import CountersUnreadable
from candidates.serving_build.runtime import BuildRefused
from candidates.serving_build.signing import SigningKeyFault
from compiler_agent.models.completion import ModelRejectedRequest
from compiler_agent.outcome import UserFault
from kernel_sandbox.sandbox import SandboxUnavailable
from traces.requests import TraceError
from traces.served_model import ModelError
from traces.sources.fsspec_source import BadSourceUrl
from workflows.activities.survey import DeviceError
from workflows.retries import RETRY, USER_FAULTS

CLASSES = (
    *(TraceError, ModelError, SandboxUnavailable, CompilerUnavailable, SanitizersUnavailable, LedgerError),
    *(DeviceError, UserFault, ModelRejectedRequest, SigningKeyFault, ForgeRefused),
    *(BuildRefused, BuildNotFound, CountersUnreadable, DoesNotFit, BadSourceUrl),
)


def test_user_faults_are_classes_of_ours():
    assert set(USER_FAULTS) == {each.__name__ for each in CLASSES}
    assert RETRY.non_retryable_error_types == list(USER_FAULTS)


def test_what_is_a_kind_of_a_user_fault_is_one_too():
    kinds = [kind for each in CLASSES for kind in each.__subclasses__() if not kind.__module__.startswith("tests")]
    assert CompilerUnavailable in kinds
    assert {kind.__name__ for kind in kinds} <= set(USER_FAULTS)
