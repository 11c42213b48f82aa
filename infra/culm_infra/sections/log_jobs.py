"""Settings of the jobs of replicated logs in the settings file."""

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
