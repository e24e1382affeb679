"""What the end of a runner says about the kernel in it."""

import signal

from candidates.judge.outputs import Fault
from candidates.kernel_runner import RunnerEnded
from candidates.verdict import Reason
from kernel_sandbox.runners.gpu_device import DEVICE_FAULT_STATUS
from kernel_sandbox.sandbox import Ending

_REASONS = {
    Ending.TIMED_OUT: Reason.TIMED_OUT,
    Ending.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    Ending.FORBIDDEN_SYSTEM_CALL: Reason.FORBIDDEN_SYSTEM_CALL,
}

_CHANGED_FLOAT_STATE = (
    "the kernel left rounding mode, flush-to-zero or exception masks changed: every later operation of the serving "
    "process would compute otherwise"
)
CHANGED_FLOAT_STATE_STATUS = 72
"""As in kernel_sandbox/runners/cpp_runner.cpp and python_runner.py. A kernel that exits with it by itself is rejected
all the same."""
_LOAD_FAILED_STATUS = 71
_PYTHON_FAULTS = {73: Reason.LIBRARY_CALL, 74: Reason.CHANGED_INPUTS, 79: Reason.NOT_DETERMINISTIC}
"""As in kernel_sandbox/runners/python_runner.py, whose last line of log says more."""
_RAISED_STATUS = 75
CANNOT_INTERPRET_STATUS = 76


def fault_of_ending(ended: RunnerEnded, phase: Reason) -> Fault:
    """`phase` is what a crash counts as where it happened: LOAD_FAILED, PREPARE_FAILED or CRASHED."""
    finished = ended.finished
    if finished.ending is Ending.EXITED and finished.exit_code == CHANGED_FLOAT_STATE_STATUS:
        return Fault(reason=Reason.CHANGED_FLOAT_STATE, message=_CHANGED_FLOAT_STATE)
    if finished.ending is Ending.EXITED:
        if finished.exit_code in _PYTHON_FAULTS:
            return Fault(reason=_PYTHON_FAULTS[finished.exit_code], message=last_line(finished.log))
        if finished.exit_code in (_LOAD_FAILED_STATUS, _RAISED_STATUS, DEVICE_FAULT_STATUS):
            return Fault(reason=phase, message=last_line(finished.log))
    reason = _REASONS.get(finished.ending, phase)
    if reason is Reason.CRASHED and (finished.ending is Ending.EXITED or finished.exit_code == signal.SIGKILL):
        # It left by itself, or we killed it for an answer that the protocol does not know.
        reason = Reason.BROKE_PROTOCOL
    return Fault(reason=reason, message=_describe(ended))


def last_line(log: str) -> str:
    return (log.strip().splitlines() or [""])[-1][:500]


def _describe(ended: RunnerEnded) -> str:
    finished = ended.finished
    match finished.ending:
        case Ending.SIGNALED if finished.exit_code in (signal.SIGSEGV, signal.SIGBUS):
            return "the kernel touched memory beyond its tensors, wrote to an input, or aborted"
        case Ending.SIGNALED if finished.exit_code != signal.SIGKILL:
            return f"the kernel was ended by {signal.Signals(finished.exit_code).name}"
        case Ending.EXITED:
            return f"the kernel's process exited with status {finished.exit_code}"
        case Ending.FORBIDDEN_SYSTEM_CALL:
            return "the kernel made a system call that is not allowed (threads beyond the task's count are one)"
        case Ending.OUT_OF_MEMORY:
            return "the kernel ran out of memory"
        case _:
            return str(ended)
