"""What a shard needs from whoever keeps its state: blobs by kind and name.

In the job they are Spark state variables (`culm_streaming.sds`); here a dictionary, for tests and tools.
"""

from enum import IntEnum
from typing import Protocol


class Kind(IntEnum):
    """What a blob is; beside it, what its name is made of (`name_of`).

    Blobs of channels, of participants and of their owners share values under the numbers of their buckets
    (`buckets`).
    """

    SHARD = 0
    """The shard's layout and its timer. No name."""
    WAKES = 1
    """The channels to be looked at at a time. The time in milliseconds."""
    CHANNEL = 2
    """A channel's record: all that is small. The channel."""
    JOURNAL = 3
    """A chunk of a channel's journal. The channel, number of the chunk."""
    TOKENS = 4
    """The commands that a channel has done last. The channel."""
    HOSTED = 5
    """A hosted participant: since when, and how many of its messages have finished. Channel, participant."""
    FINISHED = 6
    """Some finished messages of a participant, oldest first. Channel, participant, number of the chunk."""
    HELD = 7
    """A message in quarantine, as it came. Channel, message id."""
    BUCKETS = 8
    """How many names of a kind share buckets, and how many buckets. The kind; see `buckets`."""
    FILTER_BYTES = 9
    """What all filters of the shard take that are larger than the default. No name; see `filter_budget`."""
    OWNER = 10
    """Whose a channel is, and a participant id of it. The channel, participant or ""; see `owners`."""
    KEY_IDS = 11
    """How many ids of a channel a key owns. The channel, the key."""


class State(Protocol):
    """The state of one shard."""

    def load(self, kind: Kind, name: bytes) -> bytes | None:
        """What was saved last; None: nothing."""

    def save(self, kind: Kind, name: bytes, blob: bytes | None) -> None:
        """Keep a blob; None removes it."""


class MemoryState:
    """A shard's state in memory. `loads` and `saves` count calls, `saved_bytes` what was written."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[Kind, bytes], bytes] = {}
        self.loads = self.saves = self.saved_bytes = 0

    def load(self, kind: Kind, name: bytes) -> bytes | None:
        """See `State`."""
        self.loads += 1
        return self.blobs.get((kind, name))

    def save(self, kind: Kind, name: bytes, blob: bytes | None) -> None:
        """See `State`."""
        self.saves += 1
        if blob is None:
            self.blobs.pop((kind, name), None)
        else:
            self.saved_bytes += len(blob)
            self.blobs[kind, name] = blob

    def copy(self) -> "MemoryState":
        """The same state, to be changed apart from this one."""
        copied = MemoryState()
        copied.blobs = dict(self.blobs)
        return copied


def name_of(*parts: bytes | str | int) -> bytes:
    """A name out of its parts: texts and bytes behind their length, numbers in 8 bytes."""
    return b"".join(map(_part, parts))


def _part(part: bytes | str | int) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(8, "big")
    raw = part.encode() if isinstance(part, str) else part
    return len(raw).to_bytes(2, "big") + raw
