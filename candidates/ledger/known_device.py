"""known_device_facts: what the ledger knows of a task's device, in plain lines; it measures nothing."""

from candidates.device_facts import device_facts
from candidates.ledger.ledger import Ledger
from candidates.task import KernelTask


def known_device_facts(ledger: Ledger, task: KernelTask) -> str:
    """With the rates of the task's number of threads where they were measured; empty for a device never seen."""
    device = ledger.device(task.device_id)
    return "" if device is None else device_facts(device, ledger.ceilings(task.device_id, task.threads))
