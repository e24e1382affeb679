"""The base of what traces hands to other processes: the same rules as the records of the layer above."""

from pydantic import BaseModel, ConfigDict


class TraceRecord(BaseModel):
    """Frozen, closed, and free of NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")
