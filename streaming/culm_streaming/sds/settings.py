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
    """`shards` is the number of partitions of `sds.out`: the job ignores a value given here.

    `shards` and `wake_ms` are fixed for the life of a checkpoint. Raises `JobSettingsError` for values out of
    range.
    """

    shards: int = 8
    wake_ms: int = 500
    """Times of due actions are rounded up to a multiple of this."""
    far_ms: int = 60_000
    """A channel that is due later than this is checked again when at most half of the time is left."""
    lag_ms: int = 10_000
    """A shard lags if its newest record is older than its micro-batch by this much: nothing is due by the
    clock meanwhile, because acknowledgements that would prevent an action may be among the unread records."""
    lag_tick_ms: int = 60_000
    """A shard that lags permanently runs due actions at this interval nevertheless."""
    tokens: int = 256
    """Limit of a channel's remembered commands, so that a repeated command is not executed again."""
    finished: int = 1_000
    """Limit of rows of finished messages per participant in `sds.acks`."""
    tail_bytes: int = 4 * 1024
    """A channel's newest journal is in its record up to this size; small channels have no other."""
    chunk_bytes: int = 48 * 1024
    """Size up to which a chunk of the journal grows."""
    compact_bytes: int = 4 * 1024 * 1024
    """The journal is rewritten when it has grown by this and is twice as large as after the last rewrite."""
    lineage: int = 8
    """Number of former states from which a worker's copy of a channel can be updated."""
    cache_weight: int = 400_000
    """Log entries of the channels that each worker process keeps in memory; a channel with a filter of the
    default size counts as 64 more."""
    filter_bytes: int = 256 * 1024
    """Limit of a channel's filter in its settings; each of its messages carries the filter."""
    shard_filter_bytes: int = 32 * 1024 * 1024
    """Limit of all filters in a shard that are larger than the default of their profile."""
    ids_per_key: int = 256
    """Limit of the ids in a channel, hosted (now or before) or bound, that one key may own."""
    ids_per_channel: int = 20_000
    """Limit of such ids of all keys."""

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name in _MAY_BE_ZERO else 1
            require(getattr(self, field.name) >= least, JobSettingsError, f"{field.name} is below {least}")
        require(self.far_ms >= 2 * self.wake_ms, JobSettingsError, "far_ms is below twice wake_ms")
