"""find_gpu: the GPU that a user named, by what its vendor's tool says of this machine."""

import subprocess

from candidates.device import Gpu
from compiler_agent.outcome import UserFault

_TOOL_LIMIT_S = 30.0


def find_gpu(uuid: str) -> Gpu:
    """By what the vendor's tool says. Raises UserFault for one that is not here."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TOOL_LIMIT_S,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UserFault(f"nvidia-smi does not list the GPUs ({error}), so {uuid} cannot be used") from error
    capabilities = dict(line.split(", ", 1) for line in listed.splitlines() if ", " in line)
    # A part of a GPU is not listed; where all GPUs are of one architecture, so is it.
    found = {capabilities[uuid]} if uuid in capabilities else set(capabilities.values())
    if len(found) != 1 or not (uuid in capabilities or uuid.startswith("MIG-")):
        raise UserFault(f"no GPU {uuid} (COMPILER_AGENT_GPU): there are {', '.join(capabilities) or 'none'}")
    return Gpu(uuid=uuid, architecture=f"sm_{found.pop().strip().replace('.', '')}")
