"""Settings of the job `sds` in the settings file and on the command line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SdsJobSection(BaseModel):
    """Limits of the job's micro-batches and memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_offsets_per_trigger: int = Field(
        20_000, ge=1, description="the most records a micro-batch takes; a message may have a MiB"
    )
    interval_ms: int = Field(1_000, ge=0, description="timers are looked after at most this often, in ms")
    cache_entries: int = Field(
        400_000, ge=0, description="messages of channels that each worker keeps in memory"
    )
    filter_bytes: int = Field(
        256 * 1024, ge=0, description="the largest bloom filter that a join may ask for, in bytes"
    )
    shard_filter_bytes: int = Field(
        32 * 1024**2, ge=0, description="all filters of a shard together that are larger than the default"
    )
