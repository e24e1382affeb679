"""Which builds a serving process loads, and what becomes of calls where it does not."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.runtime import ALLOW_UNSIGNED, TRUSTED_KEYS, BuildRefused, install, manifest_text
from candidates.serving_build.runtime import _digest_of as digest_of
from candidates.serving_build.signing import SIGNING_KEY, SigningKeyFault, make_key, public_key, sign_build

SIGNATURE = "manifest.ed25519"


def run(model: torch.nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.arange(4)[None]).logits
    return logits


@pytest.fixture(scope="session")
def signed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("signed")
    make_key(home, {})
    return home


@pytest.fixture(scope="session")
def key(signed_home: Path) -> str:
    public = public_key(signed_home, {})
    assert public is not None
    return public


@pytest.fixture
def signed(signed_home: Path, device: DeviceFingerprint, rmsnorm, linear, tmp_path: Path) -> Path:
    """A signed build, to be spoiled."""
    build = write_build(signed_home, "tiny", device, [rmsnorm, linear])
    return Path(shutil.copytree(build.path, tmp_path / "build"))


def change_byte(pattern: str, place: float) -> Callable[[Path], str]:
    def spoil(folder: Path) -> str:
        path = next(folder.glob(pattern))
        content = bytearray(path.read_bytes())
        content[round(place * (len(content) - 1))] ^= 1
        path.write_bytes(content)
        return path.name

    return spoil


def remove(pattern: str) -> Callable[[Path], str]:
    def spoil(folder: Path) -> str:
        path = next(folder.glob(pattern))
        path.unlink()
        return path.name

    return spoil


def add_file(name: str) -> Callable[[Path], str]:
    def spoil(folder: Path) -> str:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
        return Path(name).name

    return spoil


def make_link(pattern: str) -> Callable[[Path], str]:
    """The same content, elsewhere."""

    def spoil(folder: Path) -> str:
        path = next(folder.glob(pattern))
        path.rename(folder.parent / path.name)
        path.symlink_to(folder.parent / path.name)
        return path.name

    return spoil


def make_pipe(folder: Path) -> str:
    os.mkfifo(folder / "kernels" / "pipe")
    return "pipe"


SPOILED = {
    f"{name} {pattern}": spoil(pattern)
    for pattern in ("manifest.json", SIGNATURE, "runtime.py", "kernels/*.so", "kernels/*.cpp", "tasks/*.json")
    for name, spoil in (
        ("first byte of", lambda pattern: change_byte(pattern, 0.0)),
        ("middle byte of", lambda pattern: change_byte(pattern, 0.5)),
        ("last byte of", lambda pattern: change_byte(pattern, 1.0)),
        ("no", remove),
        ("link to", make_link),
    )
} | {
    "link to folder": make_link("kernels"),
    "pipe": make_pipe,
    **{f"extra {name}": add_file(name) for name in ("extra", "kernels/a.so", ".hidden", "__pycache__/runtime.pyc")},
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_tampered_build_is_refused(model: LlamaForCausalLM, signed: Path, key: str, spoiled: str) -> None:
    install(model, signed, trusted_keys=[key]).uninstall()
    name = SPOILED[spoiled](signed)
    with pytest.raises(BuildRefused, match=name.replace(".", r"\.")):
        install(model, signed, trusted_keys=[key])
    assert not any("forward" in vars(module) for module in model.modules())


def rewrite(signed: Path, home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Another manifest, by someone who holds the key."""
    content = json.loads((signed / "manifest.json").read_text())
    del content["build_id"]
    change(content)
    (signed / "manifest.json").write_text(manifest_text(content | {"build_id": digest_of(content)}))
    sign_build(home, signed, {})


@pytest.mark.parametrize(
    "name", ["../escaped", "/etc/hostname", "kernels/../../escaped", "a\\b", ".hidden", "", "a//b"]
)
def test_unsafe_names_are_refused_even_when_signed(
    model: LlamaForCausalLM, signed: Path, signed_home: Path, key: str, name: str
) -> None:
    rewrite(signed, signed_home, lambda content: content["files"].update({name: "0" * 64}))
    with pytest.raises(BuildRefused, match=r"manifest\.json names files that no build may have"):
        install(model, signed, trusted_keys=[key])


def test_a_build_of_another_release_is_refused(
    model: LlamaForCausalLM, signed: Path, signed_home: Path, key: str
) -> None:
    rewrite(signed, signed_home, lambda content: content.update(schema_version=1))
    with pytest.raises(BuildRefused, match=r"manifest\.json has schema version 1"):
        install(model, signed, trusted_keys=[key])


def test_a_library_that_the_manifest_does_not_list_is_refused(
    model: LlamaForCausalLM, signed: Path, signed_home: Path, key: str
) -> None:
    rewrite(signed, signed_home, lambda content: content["kernels"][0].update(library="kernels/other.so"))
    with pytest.raises(BuildRefused, match=r"manifest\.json names files that no build may have"):
        install(model, signed, trusted_keys=[key])


def test_an_unsigned_build_is_refused_where_keys_are_trusted(model: LlamaForCausalLM, build: Build, key: str) -> None:
    for allow_unsigned in (None, True):
        with pytest.raises(BuildRefused, match=r"manifest\.ed25519 is missing"):
            install(model, build.path, trusted_keys=[key], allow_unsigned=allow_unsigned)


def test_without_trusted_keys_unsigned_builds_need_a_setting(
    model: LlamaForCausalLM, build: Build, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("", "0", "false", "yes"):
        monkeypatch.setenv(ALLOW_UNSIGNED, word)
        with pytest.raises(BuildRefused, match="keys new"):
            install(model, build.path)
    monkeypatch.delenv(ALLOW_UNSIGNED)
    for folder in (build.path, signed):
        with pytest.raises(BuildRefused, match="keys new"):
            install(model, folder)
        install(model, folder, allow_unsigned=True).uninstall()
    monkeypatch.setenv(ALLOW_UNSIGNED, "1")
    install(model, build.path).uninstall()


def test_keys_come_from_the_environment(
    model: LlamaForCausalLM, signed: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUSTED_KEYS, f"{'0' * 64}, {key}")
    install(model, signed).uninstall()
    monkeypatch.setenv(TRUSTED_KEYS, "0" * 64)
    with pytest.raises(BuildRefused, match=f"is by {key[:16]}, which is not trusted"):
        install(model, signed)
    monkeypatch.setenv(TRUSTED_KEYS, key[:-1])
    with pytest.raises(ValueError, match="no public key"):
        install(model, signed)


def test_two_may_sign_one_build(model: LlamaForCausalLM, signed: Path, key: str, tmp_path: Path) -> None:
    other = make_key(tmp_path, {})
    sign_build(tmp_path, signed, {})
    sign_build(tmp_path, signed, {})
    assert len((signed / SIGNATURE).read_text().splitlines()) == 2
    for trusted in (key, other):
        install(model, signed, trusted_keys=[trusted]).uninstall()


def test_a_signature_is_no_part_of_the_builds_identity(
    signed_home: Path, tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel
) -> None:
    unsigned = write_build(tmp_path, "tiny", device, [rmsnorm])
    signed = write_build(signed_home, "tiny", device, [rmsnorm])
    assert unsigned.id == signed.id
    assert (signed.path / SIGNATURE).is_file()
    assert not (unsigned.path / SIGNATURE).exists()


def test_the_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "key.pem"
    environment = {SIGNING_KEY: str(path)}
    with pytest.raises(SigningKeyFault, match="does not exist"):
        public_key(tmp_path, environment)
    public = make_key(tmp_path, environment)
    assert path.stat().st_mode & 0o777 == 0o600
    assert public_key(tmp_path, environment) == public
    with pytest.raises(SigningKeyFault, match="there already"):
        make_key(tmp_path, environment)
    path.chmod(0o640)
    with pytest.raises(SigningKeyFault, match="chmod 600"):
        public_key(tmp_path, environment)
    path.chmod(0o600)
    path.write_text("no key")
    with pytest.raises(SigningKeyFault, match="no private key"):
        public_key(tmp_path, environment)


class SpoilsBuildMeanwhile(torch.nn.Module):
    """A model that overwrites the libraries while kernels are being installed in it."""

    def __init__(self, model: torch.nn.Module, folder: Path) -> None:
        super().__init__()
        self.served, self.folder = model, folder

    def get_submodule(self, target: str) -> torch.nn.Module:
        for library in self.folder.glob("kernels/*.so"):
            library.unlink(missing_ok=True)
            library.write_bytes(b"not what was checked")
        return self.served.get_submodule(target)


def test_what_is_loaded_is_what_was_checked(model: LlamaForCausalLM, signed: Path, key: str) -> None:
    expected = run(model)
    installation = install(SpoilsBuildMeanwhile(model, signed), signed, trusted_keys=[key])
    assert installation.failures == {}
    torch.testing.assert_close(run(model), expected, rtol=1e-4, atol=1e-4)
    assert all(counters["hits"] > 0 for counters in installation.counters().values())
    installation.uninstall()


FOREIGN = {
    "another processor's features": {"features": ("imaginary512",)},
    "another model": {"model": "Another Processor 9000"},
    "a GPU": {"kind": "cuda"},
    "a broken library": b"not a library",
    "a library of another processor": b"\x7fELF\x02\x01\x01" + b"\0" * 57,
    "a library without the kernel": None,
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_foreign_artifact_falls_back(
    model: LlamaForCausalLM,
    tmp_path: Path,
    device: DeviceFingerprint,
    rmsnorm: ShippedKernel,
    rope: ShippedKernel,
    swiglu: ShippedKernel,
    foreign: str,
) -> None:
    kernels, change = [rmsnorm, rope, swiglu], FOREIGN[foreign]
    if isinstance(change, dict):
        device = DeviceFingerprint(**(device.model_dump() | change))
        kernels = [
            replace(
                kernel,
                task=kernel.task.model_copy(update={"device_id": device.id}),
                measurement=kernel.measurement.model_copy(update={"device_id": device.id}),
            )
            for kernel in kernels
        ]
    else:
        kernels = [
            replace(kernel, artifact=change)
            if change is not None
            else replace(kernel, candidate=kernel.candidate.model_copy(update={"entry": "no_such_function"}))
            for kernel in kernels
        ]
    build = write_build(tmp_path, "tiny", device, kernels)
    expected = run(model)
    installation = install(model, build.path)
    assert torch.equal(run(model), expected)
    by_op = {counters["op"]: counters for counters in installation.counters().values()}
    assert {op: counters["hits"] for op, counters in by_op.items()} == dict.fromkeys(by_op, 0)
    # One call of each site: a region's are counted as calls of its block.
    reason = "device" if isinstance(change, dict) else "not loaded"
    assert {op: counters["miss_reasons"] for op, counters in by_op.items()} == {
        "LlamaRMSNorm": {reason: 5},
        "apply_rotary_pos_emb": {reason: 2},
        "LlamaMLP.region0": {reason: 2},
    }
    assert (installation.obstacle is not None) is isinstance(change, dict)
    assert len(installation.failures) == (0 if isinstance(change, dict) else 3)
    installation.uninstall()
    assert not any("forward" in vars(module) for module in model.modules())


def test_one_broken_kernel_leaves_the_others_serving(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, linear: ShippedKernel, rmsnorm: ShippedKernel
) -> None:
    build = write_build(tmp_path, "tiny", device, [replace(linear, artifact=b"not a library"), rmsnorm])
    expected = run(model)
    installation = install(model, build.path)
    assert list(installation.failures) == [linear.candidate.id]
    assert f"kernels/{linear.candidate.id}." in installation.failures[linear.candidate.id]
    torch.testing.assert_close(run(model), expected, rtol=1e-4, atol=1e-4)
    assert installation.counters()[rmsnorm.candidate.id]["hits"] == 5
    installation.uninstall()


def test_runtimes_of_two_builds_load_their_own_kernels(
    model: LlamaForCausalLM, tmp_path: Path, device: DeviceFingerprint, ship, rmsnorm: ShippedKernel
) -> None:
    """Each is a module of its own, and the numbers of its files are used again by the other."""
    norm, x = model.model.norm, torch.randn(1, 2, 64)
    with torch.inference_mode():
        expected = norm(x)
        for factor in (1, 2, 3, 4):
            source = rmsnorm.candidate.source.replace("* scale *", f"* scale * {factor} *")
            build = write_build(tmp_path, "tiny", device, [ship(rmsnorm.task, source, rmsnorm.site)])
            runtime = ModuleType("runtime_of_a_build")
            sys.modules[runtime.__name__] = runtime
            exec((build.path / "runtime.py").read_text(), runtime.__dict__)
            installation = runtime.install(model, build.path)
            torch.testing.assert_close(norm(x), factor * expected)
            installation.uninstall()
    del sys.modules["runtime_of_a_build"]
