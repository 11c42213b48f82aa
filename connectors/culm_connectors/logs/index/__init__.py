"""The edge's own copy of replicated logs, in lmdb: a cache of `logs` for a connector, the store of a peer.

How a file is opened, grown, owned and closed is that of every local store (`culm_connectors.local_store`).

| module | what it holds |
|---|---|
| layout | keys and values of every database, checked as they are read; rows, some of them in memory |
| commit | one write transaction: entries, heights, usage, and the Kafka offsets that cover them |
| documents | which document each log belongs to, found out whenever the operations that it follows come |
| upgrade | an index of an earlier format, brought up to date in place |
| audit | whether the records agree with each other; logs taken out to be read anew |
| store | `LmdbLogStore`: the `LogStore` that the protocol reads |
| sync_ranges | the sync range of each schema in memory, with fingerprints |
| opening | trust, or drop and start anew |
| errors | what can go wrong with it |
| writer | the one writing thread, for programs on an event loop |
"""

from culm_connectors.logs.index.commit import Commit
from culm_connectors.logs.index.errors import (
    IndexBusy,
    IndexConflict,
    IndexDamaged,
    IndexForeign,
    IndexFull,
    IndexGap,
    IndexMissing,
    IndexStoreError,
    IndexUnusable,
)
from culm_connectors.logs.index.opening import check_origin, close_index, condemn, mark_open, open_index
from culm_connectors.logs.index.store import LmdbLogStore
from culm_connectors.logs.index.writer import IndexWriter

__all__ = [
    "Commit",
    "IndexBusy",
    "IndexConflict",
    "IndexDamaged",
    "IndexForeign",
    "IndexFull",
    "IndexGap",
    "IndexMissing",
    "IndexStoreError",
    "IndexUnusable",
    "IndexWriter",
    "LmdbLogStore",
    "check_origin",
    "close_index",
    "condemn",
    "mark_open",
    "open_index",
]
