"""Settings of the job `sds` in the settings file and on the command line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SdsJobSection(BaseModel):
    """Limits of the job's micro-batches and memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_offsets_per_trigger: int = Field(
        20_000, ge=1, description="Largest number of records in a micro-batch; a message has up to 1 MiB."
    )
    interval_ms: int = Field(1_000, ge=0, description="Shortest time between two checks of the timers.")
    cache_entries: int = Field(
        400_000, ge=0, description="Number of messages of channels that each worker keeps in memory."
    )
    filter_bytes: int = Field(256 * 1024, ge=0, description="Largest bloom filter that a join may request.")
    shard_filter_bytes: int = Field(
        32 * 1024**2,
        ge=0,
        description="Total size of the bloom filters of a shard that are larger than the default.",
    )
