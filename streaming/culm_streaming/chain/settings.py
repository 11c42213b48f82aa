"""How the state of the job `logs` is laid out, and its bounds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """`shards` and `blocks` are fixed for the life of a checkpoint; the bounds may change at a restart.

    A log belongs to one of `shards` keys of Spark state, and within it to one of `blocks` blobs.
    """

    shards: int = 16
    blocks: int = 32
    max_logs_per_block: int = 16_384
    max_early_per_log: int = 256
    max_early_bytes_per_log: int = 1024 * 1024
    max_early_per_shard: int = 16_384
    max_early_bytes_per_shard: int = 64 * 1024 * 1024
    max_fetches: int = 64
    """Entries that a shard reads back in one micro-batch, as the first halves of proofs of forks."""
    entries_topic: str = "culm.entries"

    def __post_init__(self) -> None:
        assert 1 <= self.shards <= 1024
        assert 1 <= self.blocks <= 65_535
        assert 1 <= self.max_early_per_log <= 65_535
        assert 1 <= self.max_early_bytes_per_log < 2**32
