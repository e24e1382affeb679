from pathlib import Path

import pytest
import torch

from traces.model_calls import ModelCall
from traces.served_model import DEFAULT_MODEL, ModelError, SyntheticCache, fake_mode_of, forward, open_model


def test_shape_counts_tied_weights_once(tiny_llama: Path, tmp_path: Path) -> None:
    shape = open_model(str(tiny_llama), tmp_path).shape
    layer = 48 * (48 + 24 + 24) + 48 * 48 + 3 * 48 * 80
    assert shape.linear_flops_per_token == 2 * 3 * layer
    assert shape.head_flops_per_sequence == 2 * 101 * 48
    assert shape.parameter_bytes == 4 * (3 * (layer + 2 * 48) + 48 + 101 * 48)
    assert shape.kv_bytes_per_token == 2 * 3 * 2 * 12 * 4
    assert (shape.layers, shape.window_tokens) == (3, 512)


def test_fake_module_has_the_shapes_of_the_real_one(tiny_llama: Path, tmp_path: Path) -> None:
    served = open_model(str(tiny_llama), tmp_path)
    real = served.load()
    fake = served.fake_module()
    assert {n: p.shape for n, p in fake.named_parameters()} == {n: p.shape for n, p in real.named_parameters()}
    call = ModelCall(batch=2, tokens=3, context=5)
    with fake_mode_of(fake):
        fake_logits = forward(fake, call, SyntheticCache(fake, call))
    assert fake_logits.shape == forward(real, call, SyntheticCache(real, call)).shape == (2, 1, 101)


def test_a_cache_serves_many_passes_and_stays_as_it_was(tiny_llama: Path, tmp_path: Path) -> None:
    module = open_model(str(tiny_llama), tmp_path).load()
    call = ModelCall(batch=2, tokens=1, context=6)
    own, shared = SyntheticCache(module, call), SyntheticCache(module, call, memory_bytes=0)
    first, second, third = forward(module, call, own), forward(module, call, own), forward(module, call, shared)
    assert torch.equal(first, second)
    assert torch.equal(first, third)


def test_fake_mode_of_a_real_module_is_refused() -> None:
    with pytest.raises(ValueError, match="fake_module"):
        fake_mode_of(torch.nn.Linear(2, 2))


def test_loading_writes_nothing_to_standard_output(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_model(str(tiny_llama), tmp_path).load()
    assert capsys.readouterr().out == ""


def test_digest_follows_the_weights(tiny_llama: Path, tmp_path: Path) -> None:
    before = open_model(str(tiny_llama), tmp_path).digest
    copy = copy_of(tiny_llama, tmp_path / "copy")
    assert open_model(str(copy), tmp_path).digest == before
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert open_model(str(copy), tmp_path).digest != before


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        ({}, "absent", "no model at"),
        ({"notes.txt": ""}, "notes.txt", "not a .gguf file"),
        ({"config.json": "{}"}, "", "no \\*.safetensors"),
        ({"notes.txt": ""}, "", "neither config.json nor exactly one .gguf"),
        ({"a.gguf": "", "b.gguf": ""}, "", "2 found"),
    ],
)
def test_what_is_no_model_is_refused_with_what_to_do(
    tmp_path: Path, files: dict[str, str], name: str, message: str
) -> None:
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    with pytest.raises(ModelError, match=message):
        open_model(str(tmp_path / name), tmp_path / "home")


def copy_of(model: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_truncated_weights_are_the_users_fault(tiny_llama: Path, tmp_path: Path) -> None:
    weights = copy_of(tiny_llama, tmp_path / "model") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cannot be read"):
        open_model(str(weights.parent), tmp_path).load()


def test_weights_of_another_configuration_are_the_users_fault(tiny_llama: Path, tmp_path: Path) -> None:
    config = copy_of(tiny_llama, tmp_path / "model") / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 3', '"num_hidden_layers": 4'))
    with pytest.raises(ModelError, match=r"lack model\.layers\.3"):
        open_model(str(config.parent), tmp_path).load()


def test_a_broken_configuration_is_the_users_fault(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such type"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"config\.json is no configuration"):
        open_model(str(tmp_path), tmp_path / "home").fake_module()


def test_a_broken_gguf_file_is_the_users_fault(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"not a model")
    with pytest.raises(ModelError, match="cannot be read as GGUF"):
        open_model(str(tmp_path / "broken.gguf"), tmp_path / "home").fake_module()


@pytest.mark.slow
def test_the_default_model_is_unpacked_once(tmp_path: Path) -> None:
    served = open_model(DEFAULT_MODEL, tmp_path)
    assert sum(p.numel() for p in served.load().parameters()) == 134_515_008
    (folder,) = (tmp_path / "models").iterdir()
    assert all(file.stat().st_mode & 0o444 == 0o444 for file in folder.iterdir())
    written = (folder / "model.safetensors").stat().st_mtime_ns
    again = open_model(DEFAULT_MODEL, tmp_path)
    assert again.shape.window_tokens == 8192
    again.load()
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
