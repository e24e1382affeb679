"""Finding NVIDIA's compiler: the tree that a script on PATH starts, and what is said where there is none."""

from pathlib import Path

import pytest

from candidates.builder import CompilerUnavailable
from candidates.languages import cuda_toolkit
from candidates.languages.cuda_toolkit import find_toolkit_among


def _tree(root: Path, *, version: str = "13.0.88") -> Path:
    for name in ("bin", "include", "lib", "nvvm"):
        (root / name).mkdir(parents=True)
    for name in ("nvcc", "ptxas"):
        program = root / "bin" / name
        program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V{version}'\n")
        program.chmod(0o755)
    (root / "include" / "cuda_runtime.h").touch()
    (root / "lib" / "libcudart.so.13").touch()
    return root


def test_names_every_program_of_a_build(tmp_path: Path) -> None:
    toolkit = find_toolkit_among([tmp_path / "nothing", _tree(tmp_path / "cu13")])
    assert toolkit.root == (tmp_path / "cu13").resolve()
    assert toolkit.versions.startswith("nvcc 13.0.88, ptxas 13.0.88, g++ ")
    assert (toolkit.include, toolkit.library, toolkit.runtime) == ("include", "lib", "libcudart.so.13")


@pytest.mark.parametrize(
    ("missing", "said"),
    [("include/cuda_runtime.h", "lacks cuda_runtime.h"), ("lib/libcudart.so.13", "lacks libcudart"), (None, "no nvcc")],
)
def test_says_what_is_missing_and_how_to_get_it(tmp_path: Path, missing: str | None, said: str) -> None:
    roots = [_tree(tmp_path / "cu13")] if missing else []
    if missing:
        (tmp_path / "cu13" / missing).unlink()
    with pytest.raises(CompilerUnavailable, match=said) as raised:
        find_toolkit_among(roots)
    assert "pip install 'compiler-agent[cuda]'" in str(raised.value)


def test_an_nvcc_that_says_no_version_is_none(tmp_path: Path) -> None:
    with pytest.raises(CompilerUnavailable, match="does not say its version"):
        find_toolkit_among([_tree(tmp_path / "cu13", version="unknown")])


def test_follows_a_script_to_the_tree_that_it_starts(tmp_path: Path) -> None:
    script = tmp_path / "nvcc"
    script.write_text("#!/bin/sh\necho '#$ _HERE_=/opt/elsewhere/bin' >&2\n")
    script.chmod(0o755)
    assert cuda_toolkit.root_of(str(script)) == Path("/opt/elsewhere")
