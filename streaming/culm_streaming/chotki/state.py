"""What a shard needs from whoever keeps its state: blobs by name.

In the job they are a Spark state variable (`job`); here a dictionary, for tests and tools.
"""

from typing import Protocol


class ShardState(Protocol):
    """The state of one shard."""

    def load(self, name: bytes) -> bytes | None:
        """What was saved last; None: nothing."""

    def save(self, name: bytes, blob: bytes | None) -> None:
        """Keep a blob; None removes it."""


class MemoryShardState:
    """A shard's state in memory."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}

    def load(self, name: bytes) -> bytes | None:
        """See `ShardState`."""
        return self.blobs.get(name)

    def save(self, name: bytes, blob: bytes | None) -> None:
        """See `ShardState`."""
        if blob is None:
            self.blobs.pop(name, None)
        else:
            self.blobs[name] = blob
