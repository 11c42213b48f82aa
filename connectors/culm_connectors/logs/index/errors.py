"""What can go wrong with a local index; whoever opened it decides between rebuilding and stopping."""

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
    """The base of the index's errors."""

    code: ClassVar[str] = "index"


class IndexDamaged(IndexStoreError, StoreDamaged):
    """The file is not what we wrote: torn, truncated, overwritten or of an unknown format."""

    code: ClassVar[str] = "index.damaged"


class IndexForeign(IndexStoreError, StoreForeign):
    """The file is sound but was filled from another Kafka cluster or from a topic created anew since."""

    code: ClassVar[str] = "index.foreign"


class IndexBusy(IndexStoreError, StoreBusy):
    """Another process holds this index; lmdb allows one."""

    code: ClassVar[str] = "index.busy"


class IndexFull(IndexStoreError, StoreFull):
    """The disk is full, or the index has the size that it may have; what it holds is as it was."""

    code: ClassVar[str] = "index.full"


class IndexUnusable(IndexStoreError, StoreUnusable):
    """The system refused what the file needs (memory, rights, a write); its content is not doubted."""

    code: ClassVar[str] = "index.unusable"


class IndexMissing(IndexStoreError):
    """There is no index where one was to be looked at."""

    code: ClassVar[str] = "index.missing"


class IndexGap(IndexStoreError):
    """Entries were given to store above a gap in their log."""

    code: ClassVar[str] = "index.gap"


class IndexConflict(IndexStoreError):
    """An entry was given to store where its log holds another one."""

    code: ClassVar[str] = "index.conflict"


INDEX_ERRORS = ErrorFamily(IndexDamaged, IndexBusy, IndexFull, IndexUnusable)
