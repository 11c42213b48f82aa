"""The states of both stages: what they need from whoever keeps them.

In the job these are Spark state variables (`culm_streaming.dag.job`); here they are dictionaries, for tests.

The second stage keeps what came, batch behind batch. Each has a token, made of the one before it and of its
rows: whoever remembers what is known as of a token only reads what came behind it.
"""

from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from typing import Final, Protocol

import cbor2

from culm_streaming.errors import StateLayoutError, StateMissingError

FORMAT: Final = 2
NO_TOKEN: Final = b""


class ShardsStore(Protocol):
    """The state of one place of the first stage. What was never saved is None; saving None removes."""

    def load_shard(self, shard: bytes) -> bytes | None:
        """What is known of a shard (`culm_streaming.dag.shards`)."""

    def save_shard(self, shard: bytes, blob: bytes | None) -> None:
        """Keep that."""

    def load_chunk(self, shard: bytes, offset: int) -> bytes | None:
        """A chunk of a shard that is not whole."""

    def save_chunk(self, shard: bytes, offset: int, data: bytes | None) -> None:
        """Keep that."""


class ReplicasStore(Protocol):
    """The state of the second stage: pieces by number, and a record of its own."""

    def load_head(self) -> bytes | None:
        """Which pieces there are, and the newest token."""

    def save_head(self, blob: bytes) -> None:
        """Keep that."""

    def load_piece(self, number: int) -> bytes | None:
        """Some batches, one behind the other."""

    def save_piece(self, number: int, blob: bytes) -> None:
        """Keep them."""


class MemoryShardsStore:
    """The first stage's state in memory."""

    def __init__(self) -> None:
        self.shards: dict[bytes, bytes] = {}
        self.chunks: dict[tuple[bytes, int], bytes] = {}

    def load_shard(self, shard: bytes) -> bytes | None:
        """See `ShardsStore`."""
        return self.shards.get(shard)

    def save_shard(self, shard: bytes, blob: bytes | None) -> None:
        """See `ShardsStore`."""
        if blob is None:
            self.shards.pop(shard, None)
        else:
            self.shards[shard] = blob

    def load_chunk(self, shard: bytes, offset: int) -> bytes | None:
        """See `ShardsStore`."""
        return self.chunks.get((shard, offset))

    def save_chunk(self, shard: bytes, offset: int, data: bytes | None) -> None:
        """See `ShardsStore`."""
        if data is None:
            self.chunks.pop((shard, offset), None)
        else:
            self.chunks[shard, offset] = data


class MemoryReplicasStore:
    """The second stage's state in memory."""

    def __init__(self) -> None:
        self.head: bytes | None = None
        self.pieces: dict[int, bytes] = {}

    def load_head(self) -> bytes | None:
        """See `ReplicasStore`."""
        return self.head

    def save_head(self, blob: bytes) -> None:
        """See `ReplicasStore`."""
        self.head = blob

    def load_piece(self, number: int) -> bytes | None:
        """See `ReplicasStore`."""
        return self.pieces.get(number)

    def save_piece(self, number: int, blob: bytes) -> None:
        """See `ReplicasStore`."""
        self.pieces[number] = blob


class BatchLog:
    """What came so far, in a store. Raises `StateLayoutError`, `StateMissingError`."""

    def __init__(self, store: ReplicasStore, verdict: bytes, piece_bytes: int) -> None:
        self._store = store
        self._verdict = verdict
        self._piece_bytes = piece_bytes
        self._last, self.token = 0, NO_TOKEN
        head = store.load_head()
        if head is not None:
            form, kept, self._last, self.token = cbor2.loads(head)
            if form != FORMAT:
                raise StateLayoutError(
                    f"the state of the job dag has format {form}, this program knows {FORMAT}"
                )
            if kept != verdict:
                raise StateLayoutError("the checkpoint was made with other verdict settings: start a new one")

    def append(self, rows: bytes) -> None:
        """Keep the rows of a batch."""
        piece = self._store.load_piece(self._last) or b""
        if len(piece) >= self._piece_bytes:
            self._last, piece = self._last + 1, b""
        self.token = sha256(self.token + sha256(rows).digest()).digest()
        self._store.save_piece(self._last, piece + cbor2.dumps((self.token, rows)))
        self._store.save_head(cbor2.dumps((FORMAT, self._verdict, self._last, self.token)))

    def behind(self, token: bytes) -> list[bytes] | None:
        """The rows of all batches behind a token, oldest first; None where it is none of this log."""
        if token == self.token:
            return []
        if self.token == NO_TOKEN:
            return None
        found: list[bytes] = []
        for number in range(self._last, -1, -1):
            piece = self._store.load_piece(number)
            if piece is None:
                raise StateMissingError(f"piece {number} of what the job dag was told is missing")
            batches = list(_batches(piece))
            for at in range(len(batches) - 1, -1, -1):
                if batches[at][0] == token:
                    return [rows for _, rows in batches[at + 1 :]] + found
            found[:0] = [rows for _, rows in batches]
        return found if token == NO_TOKEN else None


def _batches(piece: bytes) -> Iterator[tuple[bytes, bytes]]:
    file = BytesIO(piece)
    while file.tell() < len(piece):
        token, rows = cbor2.load(file)
        yield token, rows
