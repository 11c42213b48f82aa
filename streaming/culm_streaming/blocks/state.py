"""What a step needs from whoever keeps a shard's state: the records that it wrote, by set and block.

In the job they are Spark state variables (`culm_streaming.blocks.job`); here dictionaries, for tests and
tools.
"""

from typing import Protocol

Place = tuple[int, bytes, int]
"""(source, name of the set, block)."""


class HeightsStore(Protocol):
    """The state of one shard. What was never saved is None; saving None removes."""

    def load_shard(self) -> bytes | None:
        """The shard's own record: its layout and how far it has come."""

    def save_shard(self, blob: bytes) -> None:
        """Keep the shard's own record."""

    def load_summary(self, place: Place) -> bytes | None:
        """The latest summary of a block, as it was written."""

    def save_summary(self, place: Place, blob: bytes) -> None:
        """Keep a block's summary."""

    def load_chunk(self, place: Place, chunk: int) -> bytes | None:
        """One chunk of a block's heights, as it was written."""

    def save_chunk(self, place: Place, chunk: int, blob: bytes | None) -> None:
        """Keep one chunk of a block's heights, or none."""


class MemoryHeightsStore:
    """A shard's state in memory. `saves` counts what was written."""

    def __init__(self) -> None:
        self.shard: bytes | None = None
        self.summaries: dict[Place, bytes] = {}
        self.chunks: dict[tuple[Place, int], bytes] = {}
        self.saves = 0

    def load_shard(self) -> bytes | None:
        """See `HeightsStore`."""
        return self.shard

    def save_shard(self, blob: bytes) -> None:
        """See `HeightsStore`."""
        self.saves += 1
        self.shard = blob

    def load_summary(self, place: Place) -> bytes | None:
        """See `HeightsStore`."""
        return self.summaries.get(place)

    def save_summary(self, place: Place, blob: bytes) -> None:
        """See `HeightsStore`."""
        self.saves += 1
        self.summaries[place] = blob

    def load_chunk(self, place: Place, chunk: int) -> bytes | None:
        """See `HeightsStore`."""
        return self.chunks.get((place, chunk))

    def save_chunk(self, place: Place, chunk: int, blob: bytes | None) -> None:
        """See `HeightsStore`."""
        self.saves += 1
        if blob is None:
            self.chunks.pop((place, chunk), None)
        else:
            self.chunks[place, chunk] = blob
