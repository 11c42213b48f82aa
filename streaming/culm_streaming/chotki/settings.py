"""Settings of the job `chotki`."""

from dataclasses import dataclass, fields

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError
from culm_topics.catalogue.spec import MAX_MESSAGE_BYTES


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
    """A field of type L is not appended to beyond this."""
    max_field_bytes: int = MAX_MESSAGE_BYTES - 64 * 1024
    """A field that would have more is left as it is, and told on `rejected`: no record holds it."""
    max_pieces_bytes: int = 256 * 1024 * 1024
    """Pieces of large operands that a shard keeps until the last one has come."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require(getattr(self, field.name) >= 1, JobSettingsError, f"{field.name} is below 1")
