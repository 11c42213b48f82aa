"""Settings of the jobs of replicated logs and of documents in the settings file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VersionVectorsJobSection(BaseModel):
    """Limits of the job `version-vectors` per micro-batch, beside that on records of `logs`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_receipts_per_trigger: int = Field(
        5_000,
        ge=1,
        description="Largest number of receipts in a micro-batch; a receipt has up to 50,000 rows.",
    )


class BlocksJobSection(BaseModel):
    """Limits of the job `blocks` per micro-batch, beside that on records of `logs`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_receipts_per_trigger: int = Field(
        1_000,
        ge=1,
        description="Largest number of receipts in a micro-batch; a receipt has up to 50,000 rows.",
    )


class CoverageJobSection(BaseModel):
    """Limits of the job `coverage` per micro-batch, beside that on records of `logs`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_fragments_per_trigger: int = Field(
        50_000, ge=1, description="Largest number of records of `fragments` in a micro-batch."
    )
    max_holdings_per_trigger: int = Field(
        50_000, ge=1, description="Largest number of records of `holdings` in a micro-batch."
    )
    max_payload_chunks_per_trigger: int = Field(
        2_000, ge=1, description="Largest number of records of `payloads` in a micro-batch."
    )


class DocumentsJobSection(BaseModel):
    """Layout of the state of the job `documents`, and limits on what a record holds and what waits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    blocks: int = Field(
        256,
        ge=1,
        le=65_535,
        description="Number of blocks of documents in each shard; good for some 100 documents each. It is "
        "fixed for the life of a checkpoint.",
    )
    max_value_bytes: int = Field(
        16_384,
        ge=1,
        le=1_048_576,
        description="Largest size of a value in a record of `documents`, in bytes; longer ones are read in "
        "`logs`.",
    )
    max_record_bytes: int = Field(
        262_144,
        ge=1,
        le=2_097_152,
        description="Largest size of all values of a record, in bytes; beyond it, the longest are read in "
        "`logs`.",
    )
    max_waiting_logs: int = Field(
        65_536,
        ge=1,
        le=1_000_000,
        description="Largest number of logs that wait for the operation which their first entry follows.",
    )
