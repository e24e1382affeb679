"""PythonEnvironment: the Python that runs us, inside a sandbox."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_sandbox import python_environment as module
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.python_environment import PythonEnvironment, python_environment
from kernel_sandbox.sandbox import Ending, Limits, SandboxUnavailable

SANDBOX = BubblewrapSandbox()
PROBE = """
import json, os, sys
def writes(folder):
    try:
        open(os.path.join(folder, "x"), "w")
    except OSError:
        return False
    return True
print(json.dumps({
    "version": sys.version, "isolated": sys.flags.isolated, "no_user_site": sys.flags.no_user_site,
    "writes_bytecode": not sys.dont_write_bytecode, "path": sys.path,
    "writable": [folder for folder in sys.path if writes(folder)], "home": os.environ["HOME"],
    "numpy": __import__("numpy").__version__, "secret": os.path.exists(sys.argv[1]),
}))
"""


def test_runs_isolated_with_our_packages(tmp_path: Path) -> None:
    environment = python_environment()
    secret = Path(sys.prefix).resolve().parent / "pyproject.toml"
    with SANDBOX.open(Limits(), environment.read_only) as session:
        session.put("probe.py", PROBE.encode())
        finished = session.run([*environment.argv, "probe.py", str(secret)], {"PYTHONPATH": "/scratch"})
    assert finished.ending is Ending.EXITED
    told = json.loads(finished.log)
    assert told["version"] == sys.version
    assert (told["isolated"], told["no_user_site"], told["writes_bytecode"]) == (1, 1, False)
    assert told["writable"] == []
    assert "/scratch" not in told["path"]
    assert not told["secret"]


def test_shows_the_environment_and_its_base() -> None:
    environment = python_environment()
    for prefix in (sys.prefix, sys.base_prefix):
        assert environment.holds(Path(prefix).resolve() / "bin")
    assert not environment.holds(Path("/etc/passwd"))
    assert all(str(folder) == inside for folder, inside in environment.read_only.items())


def test_a_virtual_environment_of_a_virtual_environment_runs(tmp_path: Path) -> None:
    made = tmp_path / "inner"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    source = (
        "from kernel_sandbox.python_environment import python_environment as p; e = p(); print(e.argv, *e.read_only)"
    )
    told = subprocess.run(
        [str(made / "bin" / "python"), "-c", source], capture_output=True, text=True, check=True, cwd=_root()
    ).stdout
    assert str(made) in told
    assert str(Path(sys.base_prefix).resolve()) in told or sys.base_prefix.startswith("/usr")


@pytest.mark.parametrize("prefix", ["/", "~", "~/.."])
def test_shows_no_home_folder(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr(sys, "prefix", str(Path(prefix).expanduser()))
    with pytest.raises(SandboxUnavailable, match="virtual environment"):
        python_environment()


def test_says_what_to_do_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SandboxUnavailable, match="full path"):
        module.python_environment()


def test_a_folder_that_is_not_shown_is_not_held() -> None:
    environment = PythonEnvironment(argv=("python3",), read_only={Path("/opt/python"): "/opt/python"})
    assert environment.holds(Path("/opt/python/lib/torch"))
    assert environment.holds(Path("/usr/lib/python3/dist-packages/torch"))
    assert not environment.holds(Path("/opt/python3"))


def _root() -> Path:
    return Path(module.__file__).parents[1]
