"""gpu_nodes: what of /dev a program needs for one NVIDIA GPU, told from what its driver shows in /proc."""

from pathlib import Path

from kernel_sandbox.sandbox import SandboxUnavailable

_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


def gpu_nodes(
    uuid: str, driver: Path = Path("/proc/driver/nvidia/gpus"), devices: Path = Path("/dev")
) -> tuple[Path, ...]:
    """The GPU's own node and those that all share; no other GPU's.

    Raises SandboxUnavailable for a GPU that is not here, and for a part of one (`MIG-…`).
    """
    if uuid.startswith("MIG-"):
        raise SandboxUnavailable(f"{uuid} is a part of a GPU, which only --sandbox docker can show")
    known = []
    for information in sorted(driver.glob("*/information")):
        facts = dict(line.split(":", 1) for line in information.read_text().splitlines() if ":" in line)
        known.append(facts.get("GPU UUID", "").strip())
        if known[-1] == uuid:
            nodes = [devices / f"nvidia{facts['Device Minor'].strip()}", *(devices / name for name in _SHARED)]
            return tuple(node for node in nodes if node.exists())
    raise SandboxUnavailable(f"the driver knows no {uuid}: there are {', '.join(known) or 'none'} (nvidia-smi -L)")
