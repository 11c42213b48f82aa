"""State of one document, beside its history in pages.

Many documents share a block of state: a micro-batch touches many of them, and each access costs more than
reading some. A document that is too large for that, or whose block is full, has a row of its own: otherwise
a change of one among millions of documents would rewrite a share of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import cbor2

from culm_models.p2panda.operations.identifiers import DocumentId, OperationId
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.stateful.job_state import JobState, Variable, check_format, check_layout

SHARD: Final[Variable[bytes]] = Variable("shard")
BLOCKS: Final[Variable[bytes]] = Variable("blocks", "block int")
OWN_ROWS: Final[Variable[bytes]] = Variable("large", "document binary")
"""Documents with a row of their own."""
FORMAT: Final = 1
MAX_BYTES_IN_BLOCK: Final = 4_096
"""Largest size of a document in a block."""
MAX_BLOCK_BYTES: Final = 65_536
"""Largest size of all documents in a block."""

_HAS_ROW: Final = b""
"""What a block has of a document with a row of its own."""

StoredField = list[Any]
"""[CBOR of the value or empty, operation id, author, partition, offset]."""


@dataclass(slots=True)
class DocumentState:
    """One document. `recent` has the `recent_count` newest operations, packed (`history`).

    `pages` has the number of earlier ones in each page. `last_id` is the last operation of the order.

    `ends_with_head` tells whether the last operation of the order is a head that is applied once. `fields` is
    None once the document is deleted. `waiting` counts the operations that wait; `missing` and `waiting_ids`
    are the lowest ids of what they wait for, and of themselves; `refused` are those of refused ones, with
    their codes.
    """

    document_id: DocumentId
    schema_id: str
    owner: bytes
    version: int = 0
    heads: set[OperationId] = field(default_factory=set)
    ends_with_head: bool = True
    fields: dict[str, StoredField] | None = field(default_factory=dict)
    has_too_many_fields: bool = False
    last_id: OperationId = b""
    recent: bytes = b""
    recent_count: int = 0
    pages: list[int] = field(default_factory=list)
    waiting: int = 0
    missing: list[OperationId] = field(default_factory=list)
    waiting_ids: list[OperationId] = field(default_factory=list)
    refused: list[tuple[OperationId, str]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Return the state as bytes."""
        return cbor2.dumps(
            (
                self.document_id,
                self.schema_id,
                self.owner,
                self.version,
                sorted(self.heads),
                self.ends_with_head,
                self.fields,
                self.has_too_many_fields,
                self.last_id,
                self.recent,
                self.recent_count,
                self.pages,
                self.waiting,
                self.missing,
                self.waiting_ids,
                self.refused,
            )
        )

    @classmethod
    def decode(cls, blob: bytes) -> DocumentState:
        """Return the state of `encode`."""
        state = cls(*cbor2.loads(blob))
        state.heads = set(state.heads)
        state.refused = [(operation_id, code) for operation_id, code in state.refused]
        return state


class DocumentBlocks:
    """The documents of one shard, by block. `save` stores those that were put."""

    def __init__(self, store: JobState, layout: DocumentsLayout) -> None:
        self._store = store
        self._blocks: dict[int, dict[bytes, bytes]] = {}
        self._sizes: dict[int, int] = {}
        self._changed: set[int] = set()
        known = store.load(SHARD)
        self._is_new = known is None
        self._layout = (FORMAT, layout.shards, layout.blocks)
        if known is not None:
            form, shards, blocks = cbor2.loads(known)
            check_format("the documents of a shard", form, FORMAT)
            check_layout((shards, blocks), (layout.shards, layout.blocks))

    def get(self, block: int, document: bytes) -> DocumentState | None:
        """Return a document by its short id and block; None if it is new."""
        blob = self._block(block).get(document)
        if blob == _HAS_ROW:
            blob = self._store.load(OWN_ROWS, document)
        return None if blob is None else DocumentState.decode(blob)

    def put(self, block: int, document: bytes, state: DocumentState) -> None:
        """Replace a document."""
        blobs, blob = self._block(block), state.encode()
        had_row = blobs.get(document) == _HAS_ROW
        size = self._sizes[block] - len(blobs.get(document, b""))
        if len(blob) > MAX_BYTES_IN_BLOCK or size + len(blob) > MAX_BLOCK_BYTES:
            self._store.save(OWN_ROWS, document, blob)
            if had_row:
                return
            blob = _HAS_ROW
        elif had_row:
            self._store.save(OWN_ROWS, document, None)
        blobs[document] = blob
        self._sizes[block] = size + len(blob)
        self._changed.add(block)

    def save(self) -> None:
        """Store the blocks that have changed."""
        if self._is_new and self._blocks:
            self._store.save(SHARD, (), cbor2.dumps(self._layout))
        for block in sorted(self._changed):
            self._store.save(BLOCKS, block, cbor2.dumps(self._blocks[block]))

    def _block(self, block: int) -> dict[bytes, bytes]:
        blobs = self._blocks.get(block)
        if blobs is None:
            stored = self._store.load(BLOCKS, block)
            blobs = self._blocks[block] = {} if stored is None else cbor2.loads(stored)
            self._sizes[block] = sum(map(len, blobs.values()))
        return blobs
