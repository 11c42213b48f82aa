"""Settings of the job `chotki`."""

from dataclasses import dataclass, fields

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError


@dataclass(frozen=True, slots=True)
class ChotkiStateSettings:
    """`shards` is the number of partitions of `chotki.state`: the job ignores a value given here.

    Raises `JobSettingsError` for values out of range.
    """

    shards: int = 8
    gap_ms: int = 60_000
    """An entry that builds on missing data for this time, with all input read, is reported as a gap."""
    max_waiting: int = 100_000
    """Limit of waiting entries: runs of packets, and sources of syncs."""
    max_list_bytes: int = 1024 * 1024
    """Limit of a field of type L; elements beyond it are left out and reported on `rejected`."""
    max_open_operands: int = 64
    """Limit of incomplete large operands in a partition of `chotki.fields`; see `OpenOperands`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require(getattr(self, field.name) >= 1, JobSettingsError, f"{field.name} is below 1")
