"""TritonArtifact: archives that a hostile build may leave."""

import io
import json
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.languages.triton_artifact import BadArtifact, read_artifact
from candidates.languages.triton_report import read_report

WHOLE = {"kernel.py": b"x = 1\n", "report.json": b"{}"}


def archive(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return written.getvalue()


def test_reads_what_a_build_leaves() -> None:
    artifact = read_artifact(archive(WHOLE | {"cache/ABC/_k.cubin": b"\x7fELF"}))
    assert (artifact.source, artifact.report) == (b"x = 1\n", b"{}")
    assert artifact.cache == {"ABC/_k.cubin": b"\x7fELF"}


@pytest.mark.parametrize(
    "name",
    ["../kernel", "/etc/passwd", "cache/../../x", "cache/A/../x", "cache/A/.hidden", "cache/A/B/c", "cache/A", "other"],
)
def test_refuses_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(BadArtifact, match="a file"):
        read_artifact(archive(WHOLE | {name: b""}))


def test_refuses_a_bomb() -> None:
    bomb = archive(WHOLE | {"cache/A/bomb": b"\0" * (17 << 20)})
    assert len(bomb) < 100_000
    with pytest.raises(BadArtifact, match="more than 16777216 bytes"):
        read_artifact(bomb)


def test_refuses_a_bomb_in_parts() -> None:
    with pytest.raises(BadArtifact, match="more than"):
        read_artifact(archive(WHOLE | {f"cache/A/part{number}": b"\0" * (16 << 20) for number in range(7)}))


def test_believes_no_size_that_a_member_claims() -> None:
    made = bytearray(archive(WHOLE | {"cache/A/bomb": b"\0" * (17 << 20)}))
    central = made.rindex(b"PK\x01\x02")
    made[central + 24 : central + 28] = (10).to_bytes(4, "little")
    with pytest.raises(BadArtifact):
        read_artifact(bytes(made))


@pytest.mark.parametrize(
    "content",
    [
        archive({"kernel.py": b""}),
        archive(WHOLE | {f"cache/A/f{number}": b"" for number in range(2001)}),
        archive(WHOLE, zipfile.ZIP_LZMA),
        archive(WHOLE)[:-30],
        b"",
    ],
    ids=["incomplete", "files", "method", "cut", "empty"],
)
def test_refuses_what_is_no_such_archive(content: bytes) -> None:
    with pytest.raises(BadArtifact):
        read_artifact(content)


@given(st.binary(), st.integers(0, 200), st.binary(max_size=8))
def test_any_bytes_are_read_or_refused(content: bytes, at: int, change: bytes) -> None:
    whole = bytearray(archive(WHOLE))
    whole[at : at + len(change)] = change
    for each in (content, bytes(whole)):
        try:
            read = read_artifact(each)
        except BadArtifact as refusal:
            assert str(refusal)  # noqa: PT017 - both ends are fine
        else:
            assert isinstance(read.source, bytes)


KERNEL = {
    "kernel": "_k",
    "line": 3,
    "architecture": "sm_90",
    "warps": 4,
    "shared_bytes": 0,
    "registers": 32,
    "instructions": {"ld.global.v4.b32": 2},
    "grid": [1],
    "workloads": ["rows=1"],
}


def a_report(**kernel: object) -> str:
    told = {"triton": "3.9.0", "notes": [], "kernels": [KERNEL | kernel]}
    return json.dumps(told)


def test_reads_a_report() -> None:
    [kernel] = read_report(a_report()).kernels
    assert kernel.instructions == {"128-bit global load": 2}
    assert kernel.occupancy[0].share_of_warps == 1.0


@pytest.mark.parametrize(
    "report",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        "x" * (3 << 20),
        a_report(registers=-1),
        a_report(registers=10**30),
        a_report(warps=0),
        a_report(kernel="k" * 1000),
        a_report(more=1),
        a_report(instructions={f"i{number}": 1 for number in range(2000)}),
    ],
    ids=lambda report: report[:10],
)
def test_a_report_that_no_compiler_wrote_is_a_note(report: str) -> None:
    read = read_report(report)
    assert read.kernels == ()
    assert read.notes


@pytest.mark.parametrize("architecture", ["sm_1", "gfx1", "", "cpu", "sm_90a"])
def test_an_architecture_without_known_limits_has_no_occupancy(architecture: str) -> None:
    for kernel in read_report(a_report(architecture=architecture)).kernels:
        assert kernel.occupancy == ()


def test_figures_beyond_any_gpu_are_read() -> None:
    [kernel] = read_report(a_report(registers=1 << 40, shared_bytes=1 << 40, warps=1024)).kernels
    assert kernel.occupancy[0].blocks == 0
