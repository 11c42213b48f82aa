"""Settings of the job `chotki`."""

from dataclasses import dataclass, fields

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError


@dataclass(frozen=True, slots=True)
class ChotkiStateSettings:
    """`shards` is the number of partitions of `chotki.state`: what is given here does not count in the job.

    Raises `JobSettingsError` for unfit ones.
    """

    shards: int = 8
    gap_ms: int = 60_000
    """What builds on something that has not come for so long, all of it read, is reported as a gap."""
    max_waiting: int = 100_000
    """Packets' runs and syncs' sources that wait for what they build on."""
    max_list_bytes: int = 1024 * 1024
    """A field of type L is not appended to beyond this; what is left out is reported on `rejected`."""
    max_open_operands: int = 64
    """Large operands of one partition of `chotki.fields` that lack pieces; see `OpenOperands`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require(getattr(self, field.name) >= 1, JobSettingsError, f"{field.name} is below 1")
