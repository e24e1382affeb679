import os

import pytest

from candidates.ledger.blobs import BlobError, BlobStore


def test_gives_back_what_was_put(tmp_path):
    store = BlobStore(tmp_path)
    digest = store.put(b"kernel")
    assert store.get(digest) == b"kernel"
    assert store.put(b"kernel") == digest


def test_refuses_a_blob_whose_bytes_were_changed(tmp_path):
    store = BlobStore(tmp_path)
    digest = store.put(b"kernel")
    (tmp_path / digest[:2] / digest).write_bytes(b"other")
    with pytest.raises(BlobError, match="does not have the content"):
        store.get(digest)


def test_names_a_missing_blob(tmp_path):
    with pytest.raises(BlobError, match="is not in"):
        BlobStore(tmp_path).get("0" * 64)


def test_what_lies_in_a_blobs_place_is_told(tmp_path):
    (tmp_path / "00" / ("0" * 64)).mkdir(parents=True)
    with pytest.raises(BlobError, match="Is a directory"):
        BlobStore(tmp_path).get("0" * 64)


@pytest.mark.parametrize("digest", ["", "../../../../etc/passwd", "0" * 63, "G" * 64])
def test_only_a_digest_names_a_blob(tmp_path, digest):
    with pytest.raises(BlobError, match="names no blob"):
        BlobStore(tmp_path).get(digest)


def test_leaves_nothing_behind_when_the_disk_refuses(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        BlobStore(tmp_path).put(b"kernel")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
