"""What a step needs from whoever keeps a shard's state: four small maps of packed bytes.

In the job they are Spark state variables (`culm_streaming.logs.job`); here they are dictionaries, for
tests and tools.
"""

from typing import Protocol


class ShardStore(Protocol):
    """The state of one shard. What was never saved is None; saving None removes."""

    def load_totals(self) -> bytes | None:
        """The shard's own record: layout and totals."""

    def save_totals(self, blob: bytes) -> None:
        """Keep the shard's own record."""

    def load_block(self, block: int) -> bytes | None:
        """The packed state of the logs of one block."""

    def save_block(self, block: int, blob: bytes) -> None:
        """Keep the packed state of the logs of one block."""

    def load_chunk(self, log_key: bytes, chunk: int) -> bytes | None:
        """One full chunk of a long log's history."""

    def save_chunk(self, log_key: bytes, chunk: int, blob: bytes) -> None:
        """Keep one full chunk of a long log's history."""

    def load_early(self, log_key: bytes) -> bytes | None:
        """The packed early arrivals of one log."""

    def save_early(self, log_key: bytes, blob: bytes | None) -> None:
        """Keep the packed early arrivals of one log, or none of them."""


class MemoryShardStore:
    """A shard's state in memory. `saves` counts what was written."""

    def __init__(self) -> None:
        self.totals: bytes | None = None
        self.blocks: dict[int, bytes] = {}
        self.chunks: dict[tuple[bytes, int], bytes] = {}
        self.early: dict[bytes, bytes] = {}
        self.saves = 0

    def copy(self) -> "MemoryShardStore":
        """A copy, independent of this one."""
        other = MemoryShardStore()
        other.totals, other.blocks = self.totals, dict(self.blocks)
        other.chunks, other.early = dict(self.chunks), dict(self.early)
        return other

    def load_totals(self) -> bytes | None:
        """See `ShardStore`."""
        return self.totals

    def save_totals(self, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.totals = blob

    def load_block(self, block: int) -> bytes | None:
        """See `ShardStore`."""
        return self.blocks.get(block)

    def save_block(self, block: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.blocks[block] = blob

    def load_chunk(self, log_key: bytes, chunk: int) -> bytes | None:
        """See `ShardStore`."""
        return self.chunks.get((log_key, chunk))

    def save_chunk(self, log_key: bytes, chunk: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.chunks[log_key, chunk] = blob

    def load_early(self, log_key: bytes) -> bytes | None:
        """See `ShardStore`."""
        return self.early.get(log_key)

    def save_early(self, log_key: bytes, blob: bytes | None) -> None:
        """See `ShardStore`."""
        self.saves += 1
        if blob is None:
            self.early.pop(log_key, None)
        else:
            self.early[log_key] = blob
