"""Settings of the repair: time until, and rate at which, lost entries are produced again."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RepairSettings(BaseModel):
    """Settings for producing entries to `entries` again that the index holds and `logs` has lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Produces lost entries again without being asked.")
    after_s: float = Field(
        default=600.0,
        gt=0,
        description="Time after which a log is checked that has not grown on the topic `logs` "
        "although the index holds more of it. The time doubles after each attempt "
        "without success.",
    )
    entries_per_second: float = Field(
        default=500.0, gt=0, description="Average rate at which lost entries are produced again."
    )
