"""What of the boundary's real side can be shown without a GPU: that it stands alone, and how it ends."""

import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
import torch

from candidates.builder import CompilerUnavailable
from candidates.languages.cuda_toolkit import find_toolkit
from kernel_sandbox.runners.gpu_device import DEVICE_FAULT_STATUS, DeviceMissing, open_device

RUNNERS = resources.files("kernel_sandbox.runners")


def _run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """With nothing of the project but the files that stand alone, as in a sandbox."""
    for name in ("gpu_device.py", "device_calls.py", "device_slots.py"):
        shutil.copy(str(RUNNERS / name), folder / name)
    script = folder / "main.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{code}")
    return subprocess.run([sys.executable, "-I", "-B", script], capture_output=True, text=True, check=False)


def test_stands_alone_beside_a_runner(tmp_path: Path) -> None:
    ran = _run(
        tmp_path,
        "import gpu_device, device_calls, device_slots\n"
        "assert not any(name.split('.')[0] in ('kernel_sandbox', 'candidates', 'pydantic') for name in sys.modules)\n",
    )
    assert ran.returncode == 0, ran.stderr


def test_a_fault_ends_the_process_with_a_status_of_its_own(tmp_path: Path) -> None:
    ran = _run(
        tmp_path,
        "import atexit, gpu_device\n"
        "atexit.register(print, 'clean-up')\n"
        "gpu_device.exit_after(gpu_device.DeviceFault('an illegal memory access was encountered'))\n",
    )
    assert ran.returncode == DEVICE_FAULT_STATUS
    assert ran.stderr == "the device faulted: an illegal memory access was encountered\n"
    assert ran.stdout == ""


def test_says_what_is_missing_for_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU on this machine")
    with pytest.raises(DeviceMissing, match=r"CUDA|GPU"):
        open_device(None)


def test_the_cuda_runtime_has_what_torch_does_not_offer(tmp_path: Path) -> None:
    try:
        toolkit = find_toolkit()
    except CompilerUnavailable:
        pytest.skip("no CUDA toolkit")
    library = toolkit.root / toolkit.library / toolkit.runtime
    # Without a driver every call fails; that they can be called, and how errors read, shows all the same.
    ran = _run(
        tmp_path,
        f"import ctypes, torch, gpu_device\nctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL)\n"
        f"torch.version.cuda = {toolkit.runtime.rpartition('.')[2]!r}\n"
        "runtime = gpu_device._Runtime()\nruntime.reset_persisting_l2()\n"
        "try:\n    runtime.require_no_error()\nexcept RuntimeError as error:\n    print(error)\n",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "" or ran.stdout.startswith("CUDA error ")
