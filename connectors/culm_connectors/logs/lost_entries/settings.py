"""Settings of the repair: time until, and rate at which, lost entries are produced again."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RepairSettings(BaseModel):
    """Settings for producing entries to `entries` again that the index holds and `logs` has lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="whether a connector does so by itself")
    after_s: float = Field(
        default=600.0,
        gt=0,
        description="a log that has not grown on `logs` for so long, though the index holds more, is looked "
        "at; after each attempt that did not help, twice as long as before",
    )
    entries_per_second: float = Field(
        default=500.0, gt=0, description="how fast they are produced, on average"
    )
