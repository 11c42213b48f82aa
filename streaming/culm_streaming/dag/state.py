"""The states of both stages.

The second stage stores the received rows, batch by batch. Each batch has a token, derived from the previous
token and its rows. A process that caches the result as of a token only reads the batches after it.
"""

from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from typing import Final

import cbor2

from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.stateful.job_state import JobState, Variable, check_format

FORMAT: Final = 2
NO_TOKEN: Final = b""


SHARDS_KNOWN: Variable[bytes] = Variable("shards", "shard binary")
"""The state of a shard (`culm_streaming.dag.shards`)."""
CHUNKS: Variable[bytes] = Variable("chunks", "shard binary, start long")
"""The chunks of a shard that is not whole."""
HEAD: Variable[bytes] = Variable("head")
"""The number of the last piece, and the newest token."""
PIECES: Variable[bytes] = Variable("pieces", "number int")
"""Pieces of consecutive batches."""


class BatchLog:
    """The received batches in a store. Raises `StateLayoutError`, `StateMissingError`."""

    def __init__(self, store: JobState, verdict: bytes, piece_bytes: int) -> None:
        self._store = store
        self._verdict = verdict
        self._piece_bytes = piece_bytes
        self._last, self.token = 0, NO_TOKEN
        head = store.load(HEAD)
        if head is not None:
            form, kept, self._last, self.token = cbor2.loads(head)
            check_format("the state of the job dag", form, FORMAT)
            if kept != verdict:
                raise StateLayoutError("the checkpoint was made with other validation rules: start a new one")

    def append(self, rows: bytes) -> None:
        """Store the rows of a batch."""
        piece = self._store.load(PIECES, self._last) or b""
        if len(piece) >= self._piece_bytes:
            self._last, piece = self._last + 1, b""
        self.token = sha256(self.token + sha256(rows).digest()).digest()
        self._store.save(PIECES, self._last, piece + cbor2.dumps((self.token, rows)))
        self._store.save(HEAD, (), cbor2.dumps((FORMAT, self._verdict, self._last, self.token)))

    def behind(self, token: bytes) -> list[bytes] | None:
        """Return the rows of all batches after a token, oldest first; None for an unknown token."""
        if token == self.token:
            return []
        if self.token == NO_TOKEN:
            return None
        newer: list[bytes] = []
        for number in range(self._last, -1, -1):
            piece = self._store.load(PIECES, number)
            if piece is None:
                raise StateMissingError(f"piece {number} of what the job dag was told is missing")
            batches = list(_batches(piece))
            for at in range(len(batches) - 1, -1, -1):
                if batches[at][0] == token:
                    return [rows for _, rows in batches[at + 1 :]] + newer
            newer[:0] = [rows for _, rows in batches]
        return newer if token == NO_TOKEN else None


def _batches(piece: bytes) -> Iterator[tuple[bytes, bytes]]:
    file = BytesIO(piece)
    while file.tell() < len(piece):
        token, rows = cbor2.load(file)
        yield token, rows
