"""The base of everything that crosses a process, a disk or a workflow."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Frozen, closed, and free of NaN and infinity, so that equal records have equal JSON and equal digests."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A validated copy. Pydantic's own would keep the id that a cached property computed for the original."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | dict(update or {}))


def digest_of(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of `content`: sorted keys, no spaces, UTF-8."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
