"""Errors of a local index; the caller that opened it decides between rebuilding and stopping."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.local_store.errors import (
    ErrorFamily,
    LocalStoreError,
    StoreBusy,
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreUnusable,
)


class IndexStoreError(LocalStoreError):
    """Base of the index's errors."""

    code: ClassVar[str] = "index"


class IndexDamaged(IndexStoreError, StoreDamaged):
    """The file is not as written: torn, truncated, overwritten or of an unknown format."""

    code: ClassVar[str] = "index.damaged"


class IndexForeign(IndexStoreError, StoreForeign):
    """The file is sound, but was filled from another Kafka cluster or from a topic created again since."""

    code: ClassVar[str] = "index.foreign"


class IndexBusy(IndexStoreError, StoreBusy):
    """Another process has opened this index; lmdb allows one."""

    code: ClassVar[str] = "index.busy"


class IndexFull(IndexStoreError, StoreFull):
    """The disk is full, or the index has reached its maximum size; its content is unchanged."""

    code: ClassVar[str] = "index.full"


class IndexUnusable(IndexStoreError, StoreUnusable):
    """The system refused what the file needs (memory, rights, a write); its content is not in doubt."""

    code: ClassVar[str] = "index.unusable"


class IndexMissing(IndexStoreError):
    """There is no index at the path that was to be inspected."""

    code: ClassVar[str] = "index.missing"


class IndexGap(IndexStoreError):
    """Entries to be stored were above a gap in their log."""

    code: ClassVar[str] = "index.gap"


class IndexConflict(IndexStoreError):
    """An entry to be stored differs from the entry that its log holds."""

    code: ClassVar[str] = "index.conflict"


INDEX_ERRORS = ErrorFamily(IndexDamaged, IndexBusy, IndexFull, IndexUnusable)
