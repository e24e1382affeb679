"""open_blobs: the blob store that the settings name."""

from pathlib import Path

from candidates.ledger.blobs import BlobStore
from candidates.ledger.object_blobs import ObjectBlobs
from compiler_agent.settings import Settings


def open_blobs(settings: Settings) -> BlobStore:
    """Raises BlobUrlError."""
    place = settings.blobs_place or str(settings.home / "blobs")
    scheme, _, rest = place.rpartition("://")
    # By fsspec a local file would be there before it is whole.
    return BlobStore(Path(rest).absolute() if scheme in ("", "file") else ObjectBlobs(place))
