"""The edge's own copy of replicated logs, in lmdb: a cache of `logs` for a connector, the store of a peer.

Files are opened, grown, locked and closed as for every local store (`culm_connectors.local_store`).

| module | content |
|---|---|
| layout | keys and values of every database, checked as they are read; rows, some of them in memory |
| commit | one write transaction: entries, heights, usage, and the Kafka offsets that cover them |
| documents | the document of each log, determined whenever the operations that it follows arrive; queries |
| upgrade | checks the format of an index, and upgrades an earlier one in place |
| audit | checks that records agree with each other; removes logs so that they are read again |
| store | `LmdbLogStore`: the `LogStore` that the protocol reads |
| sync_ranges | the sync range of each schema in memory, with fingerprints |
| opening | opens an index: trusts it, or drops it and starts again |
| errors | the errors of the index |
| writer | the one writer thread, for programs with an event loop |
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
