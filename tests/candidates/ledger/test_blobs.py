"""Blobs in a folder, in memory and in an S3-compatible store: the same bytes back, or a refusal that says why not."""

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from candidates.ledger.blobs import BlobError, BlobFolder, BlobPlace, BlobStore
from candidates.ledger.object_blobs import BlobsAway, BlobUrlError, ObjectBlobs
from compiler_agent.blob_store import open_blobs
from compiler_agent.settings import read_settings

KERNEL = hashlib.sha256(b"kernel").hexdigest()


class BlobStoreContract(ABC):
    """Those who have it have a fixture `place`, a BlobPlace."""

    tick_s = 0.01
    """What the place tells times by."""

    @pytest.fixture
    def store(self, place):
        return BlobStore(place)

    def test_gives_back_what_was_put(self, store):
        digest = store.put(b"kernel")
        assert store.get(digest) == b"kernel"
        assert store.put(b"kernel") == digest

    def test_refuses_a_blob_whose_bytes_were_changed(self, store, place):
        digest = store.put(b"kernel")
        self.spoil(place, digest)
        with pytest.raises(BlobError, match="does not have the content"):
            store.get(digest)

    def test_a_blob_that_is_put_again_is_whole_again(self, store, place):
        digest = store.put(b"kernel")
        self.spoil(place, digest)
        store.put(b"kernel")
        assert store.get(digest) == b"kernel"

    def test_names_a_missing_blob(self, store):
        with pytest.raises(BlobError, match="is not in"):
            store.get("0" * 64)

    @pytest.mark.parametrize("digest", ["", "../../../../etc/passwd", "0" * 63, "G" * 64])
    def test_only_a_digest_names_a_blob(self, store, digest):
        with pytest.raises(BlobError, match="names no blob"):
            store.get(digest)
        with pytest.raises(BlobError, match="names no blob"):
            store.keep(digest)

    def test_lists_what_was_put(self, store):
        digests = {store.put(content): len(content) for content in (b"kernel", b"", b"x" * 100_000)}
        assert {blob.digest: blob.size_bytes for blob in store.list()} == digests

    def test_a_removed_blob_is_gone_and_can_be_put_again(self, store):
        digest = store.put(b"kernel")
        (blob,) = store.list()
        assert store.remove(blob)
        assert not store.keep(digest)
        assert list(store.list()) == []
        store.put(b"kernel")
        assert store.get(digest) == b"kernel"

    @pytest.mark.parametrize("again", ["put", "keep"])
    def test_a_blob_that_was_wanted_since_it_was_listed_is_not_removed(self, store, again):
        digest = store.put(b"kernel")
        (blob,) = store.list()
        time.sleep(1.1 * self.tick_s)
        assert store.keep(digest) if again == "keep" else store.put(b"kernel")
        assert not store.remove(blob)
        assert store.get(digest) == b"kernel"

    @abstractmethod
    def spoil(self, place: BlobPlace, digest: str) -> None:
        """Half of it, as if its writing had been cut short."""


class TestFolder(BlobStoreContract):
    @pytest.fixture
    def place(self, tmp_path):
        return BlobFolder(tmp_path / "blobs")

    def spoil(self, place, digest):
        (Path(str(place)) / digest[:2] / digest).write_bytes(b"ker")

    def test_what_lies_in_a_blobs_place_is_told(self, store, tmp_path):
        (tmp_path / "blobs" / "00" / ("0" * 64)).mkdir(parents=True)
        with pytest.raises(BlobError, match="Is a directory"):
            store.get("0" * 64)

    def test_leaves_nothing_behind_when_the_disk_refuses(self, store, tmp_path, monkeypatch):
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            store.put(b"kernel")
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


class TestMemory(BlobStoreContract):
    @pytest.fixture
    def place(self):
        return ObjectBlobs(f"memory://{uuid4()}/blobs")

    def spoil(self, place, digest):
        place.write(digest, b"ker")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Address of a server that speaks S3's protocol."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


@pytest.fixture
def bucket(s3, monkeypatch):
    """URL of an empty one."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"kernels-{uuid4()}"
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.slow
class TestS3(BlobStoreContract):
    tick_s = 1.0

    @pytest.fixture
    def place(self, bucket):
        return ObjectBlobs(f"{bucket}/night")

    def spoil(self, place, digest):
        place.write(digest, b"ker")

    def test_a_server_that_does_not_answer_is_told(self, store, monkeypatch, bucket):
        import s3fs

        digest = store.put(b"kernel")
        s3fs.S3FileSystem.clear_instance_cache()
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        away = BlobStore(ObjectBlobs(f"{bucket}/night"))
        for ask in (lambda: away.get(digest), lambda: away.put(b"kernel"), lambda: list(away.list())):
            with pytest.raises(BlobsAway, match="cannot be reached"):
                ask()

    def test_a_bucket_that_is_not_there_is_told(self, bucket):
        with pytest.raises(BlobsAway, match="does not exist"):
            BlobStore(ObjectBlobs(f"{bucket}-not/night")).put(b"kernel")


@pytest.mark.parametrize(("url", "words"), [("nothing://x", "nothing"), ("gs://bucket/x", "gcsfs")])
def test_a_url_that_nothing_here_can_open_is_refused(url, words):
    with pytest.raises(BlobUrlError, match=words):
        ObjectBlobs(url)


def test_blobs_lie_where_the_settings_say(tmp_path):
    home = {"COMPILER_AGENT_HOME": str(tmp_path)}
    for place, folder in (("", "blobs"), (str(tmp_path / "a"), "a"), (f"file://{tmp_path / 'b'}", "b")):
        open_blobs(read_settings(home | {"COMPILER_AGENT_BLOBS": place})).put(b"kernel")
        assert (tmp_path / folder / KERNEL[:2] / KERNEL).read_bytes() == b"kernel"
    store = open_blobs(read_settings(home | {"COMPILER_AGENT_BLOBS": f"memory://{uuid4()}"}))
    assert store.get(store.put(b"kernel")) == b"kernel"
