"""The base of everything that crosses a process, a disk or a workflow."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Frozen, closed, and free of NaN and infinity, so that equal records have equal JSON and equal digests."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")


def digest_of(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of `content`: sorted keys, no spaces, UTF-8."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
