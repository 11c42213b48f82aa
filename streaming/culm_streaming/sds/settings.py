"""Settings of the state of SDS channels."""

from dataclasses import dataclass, fields
from typing import Final

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError

_MAY_BE_ZERO: Final = frozenset(
    {"lag_ms", "lag_tick_ms", "compact_bytes", "cache_weight", "filter_bytes", "shard_filter_bytes"}
)


@dataclass(frozen=True, slots=True)
class ChannelsSettings:
    """`shards` is the number of partitions of `sds.out`: what is given here does not count in the job.

    What is fixed for the life of a checkpoint: `shards` and `wake_ms`.
    Raises `JobSettingsError` for unfit ones.
    """

    shards: int = 8
    wake_ms: int = 500
    """Times at which channels have something to do are rounded up to a multiple of this."""
    far_ms: int = 60_000
    """What is due later than this is first looked at again after at most half of its wait."""
    lag_ms: int = 10_000
    """A shard whose newest record is so much older than its micro-batch lags: nothing is due by the clock
    meanwhile, because the acknowledgements that would prevent it may stand among what is still unread."""
    lag_tick_ms: int = 60_000
    """A shard that lags all the time does what is due this often nevertheless."""
    tokens: int = 256
    """Commands of a channel that are remembered, so that one that comes again is not done again."""
    finished: int = 1_000
    """Rows of finished messages that `sds.acks` keeps of each participant."""
    tail_bytes: int = 4 * 1024
    """A channel's newest journal stands in its record up to this size: all that small channels have."""
    chunk_bytes: int = 48 * 1024
    """A chunk of journal grows to this size."""
    compact_bytes: int = 4 * 1024 * 1024
    """The journal is written anew when it has grown by this and is twice as large as when it was new."""
    lineage: int = 8
    """Former states from which a worker's copy of a channel can be brought up to date."""
    cache_weight: int = 400_000
    """Log entries of the channels that each worker process keeps in memory; a channel with a filter of the
    default size counts as 64 more."""
    filter_bytes: int = 256 * 1024
    """The largest filter that a channel's settings may ask for; each of its messages carries it."""
    shard_filter_bytes: int = 32 * 1024 * 1024
    """All filters of a shard together that are larger than the default one of their profile."""
    ids_per_key: int = 256
    """Ids of a channel, hosted now or before or bound, that one key may own."""
    ids_per_channel: int = 20_000
    """Such ids of all keys."""

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name in _MAY_BE_ZERO else 1
            require(getattr(self, field.name) >= least, JobSettingsError, f"{field.name} is below {least}")
        require(self.far_ms >= 2 * self.wake_ms, JobSettingsError, "far_ms is below twice wake_ms")
