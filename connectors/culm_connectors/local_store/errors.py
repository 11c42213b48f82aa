"""Errors of a local store; the code that opened it decides whether to rebuild it or to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from culm_connectors.errors import ConnectorError


class LocalStoreError(ConnectorError):
    """The base of the errors of local stores."""

    code: ClassVar[str] = "local_store"


class StoreDamaged(LocalStoreError):
    """The file differs from what was written: torn, truncated, overwritten or of an unknown format."""

    code: ClassVar[str] = "local_store.damaged"


class StoreForeign(LocalStoreError):
    """The file is sound but was filled from another Kafka cluster or from a topic created again since."""

    code: ClassVar[str] = "local_store.foreign"


class StoreBusy(LocalStoreError):
    """Another process holds this store; lmdb allows one."""

    code: ClassVar[str] = "local_store.busy"


class StoreFull(LocalStoreError):
    """The disk is full, or the store has reached its maximum size; its content is unchanged."""

    code: ClassVar[str] = "local_store.full"


class StoreUnusable(LocalStoreError):
    """The system refused an operation on the file (memory, rights, a write); its content stays trusted."""

    code: ClassVar[str] = "local_store.unusable"


class SnapshotLost(LocalStoreError):
    """A snapshot was ended because the file had to grow or was closed, or it was released before."""

    code: ClassVar[str] = "local_store.snapshot_lost"


@dataclass(frozen=True, slots=True)
class ErrorFamily:
    """The error classes of one kind of store, which may have their own names and codes."""

    damaged: type[StoreDamaged] = StoreDamaged
    busy: type[StoreBusy] = StoreBusy
    full: type[StoreFull] = StoreFull
    unusable: type[StoreUnusable] = StoreUnusable


STORE_ERRORS = ErrorFamily()
