"""Layout and limits of the state of the job `logs`."""

from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError

_LIMITS: Final = {
    "shards": 1024,
    "blocks": 65_535,
    "max_early_per_log": 65_535,
    "max_early_bytes_per_log": 2**32 - 1,
}


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """`shards` and `blocks` are fixed for the life of a checkpoint; the limits may change at a restart.

    A log belongs to one of `shards` keys of Spark state, and within it to one of `blocks` blobs. Raises
    `JobSettingsError` for values out of range.
    """

    shards: int = 16
    blocks: int = 32
    max_logs_per_block: int = 16_384
    max_early_per_log: int = 256
    max_early_bytes_per_log: int = 1024 * 1024
    max_early_per_shard: int = 16_384
    max_early_bytes_per_shard: int = 64 * 1024 * 1024
    max_fetches: int = 64
    """Limit of entries that a shard reads again in one micro-batch, as the first halves of forks' proofs."""
    entries_topic: str = "culm.entries"

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            require(
                1 <= getattr(self, name) <= limit, JobSettingsError, f"{name} is not between 1 and {limit}"
            )
