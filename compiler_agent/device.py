"""The device of this machine, as far as the ledger knows it already; measured and recorded where it does not."""

from rich.console import Console

from candidates.benchmark.exclusive import exclusive_slot
from candidates.ceilings import fingerprint_device, measure_ceilings
from candidates.device import DeviceCeilings
from candidates.device_model import DeviceModel, calibrate
from candidates.ledger.ledger import Ledger
from candidates.site_timing import use_threads
from compiler_agent.settings import Settings
from traces.served_model import ServedModel


def known_ceilings(settings: Settings, ledger: Ledger, threads: int) -> DeviceCeilings:
    device = fingerprint_device()
    ledger.put_device(device)
    ceilings = ledger.ceilings(device.id, threads)
    if ceilings is None:
        with exclusive_slot():
            ceilings = measure_ceilings(device, threads, settings.cache)
        ledger.put_ceilings(ceilings)
    return ceilings


def known_device_model(settings: Settings, served: ServedModel, console: Console) -> DeviceModel:
    """The served model's rates on this device, one thread."""
    ledger = Ledger(settings.ledger_url)
    ceilings = known_ceilings(settings, ledger, threads=1)
    known = ledger.device_model(ceilings.device_id, served.digest)
    if known is None:
        console.print(f"timing {served.name} on this device, once", highlight=False)
        module = served.load()
        with exclusive_slot(), use_threads(1):
            known = calibrate(served.shape, module, ceilings)
        ledger.put_device_model(ceilings.device_id, served.digest, known)
    return known
