"""One lmdb file: checked when opened, grown when full, its errors translated.

Writes are not flushed one by one (`sync=False`), but their order is kept (no write map): a killed process
loses nothing, and after a power failure the file is either an older state of itself or is refused here.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lmdb
from lmdb.verify import VerifyError
from lmdb.verify import verify as verify_file

from culm_connectors.local_store.errors import (
    STORE_ERRORS,
    ErrorFamily,
    LocalStoreError,
    StoreDamaged,
    StoreUnusable,
)
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.local_store.long_read import LongRead

DATA_FILE = "data.mdb"
_MAX_READERS = 64
_GROWTH = 2
_LOCK_HEAD_BYTES = 4_096
_READER_BYTES = 64
_SPACE_HINT = "free space on this disk, or move the file to a larger one"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL = tuple(os.strerror(code) for code in _NO_SPACE)
# The message of lmdb if only a part of a write fitted on the disk.
_CUT_SHORT = (os.strerror(errno.EIO),)
_NO_DAMAGE = (
    lmdb.PanicError,  # writing the head of the file failed: it must be opened anew
    lmdb.MemoryError,
    lmdb.ReadersFullError,
    lmdb.TlsFullError,
    lmdb.LockError,
    lmdb.ReadonlyError,
)

Result = TypeVar("Result")


class _Gate:
    """Admits readers, except while the map is resized, when no transaction may be open."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        with self._condition:
            while self._closed:
                self._condition.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                if self._readers == 0:
                    self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._condition:
            self._closed = True
            while self._readers:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()


class LmdbFile:
    """The lmdb environment of one folder, owned by this process until `close`.

    The map grows as needed up to `max_size_bytes`; `full_hint` is the hint of the error at that size.
    `durable` flushes every transaction; `check` walks every page before lmdb opens the file. `errors` are the
    errors raised: `busy` when another process owns the folder, `damaged` when its file is not sound, `full`
    when the disk is full or the maximum size is reached, `unusable`. `lock` is the folder's lock if the
    caller holds it already; `close` releases it.
    """

    def __init__(
        self,
        folder: Path,
        databases: Sequence[bytes],
        *,
        map_size_bytes: int,
        max_size_bytes: int,
        full_hint: str,
        durable: bool = False,
        check: bool = False,
        max_readers: int = _MAX_READERS,
        errors: ErrorFamily = STORE_ERRORS,
        lock: FolderLock | None = None,
    ) -> None:
        self.folder = folder
        self._names = tuple(databases)
        self._max_size_bytes = max_size_bytes
        self._max_readers = max_readers
        self._full_hint = full_hint
        self._errors = errors
        self._long_reads: set[LongRead] = set()
        self.damage: StoreDamaged | None = None
        """The latest damage that a transaction found."""
        self._is_flushed = True
        self._gate = _Gate()
        self._lock = lock or lock_store(folder, errors)
        try:
            self._open(min(map_size_bytes, max_size_bytes), durable=durable, check=check)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, map_size_bytes: int, *, durable: bool, check: bool) -> None:
        data = self.folder / DATA_FILE
        if check and data.exists():
            check_structure(data, self._errors)
        self._allocate_lock_file()
        with self._translated():
            self._env = lmdb.open(
                str(self.folder),
                map_size=max(map_size_bytes, data.stat().st_size if data.exists() else 0),
                max_dbs=len(self._names),
                max_readers=self._max_readers,
                max_spare_txns=8,
                sync=durable,
                metasync=durable,
                writemap=False,
            )
        try:
            self._check_length(data)
            with self._translated():
                self.databases = {name: self._env.open_db(name) for name in self._names}
        except BaseException:
            self._env.close()
            raise

    def _allocate_lock_file(self) -> None:
        """Write the file of lmdb's reader slots anew; the file of a crashed process is not reused.

        lmdb maps it without writing it first: on a full disk the first access would kill the process.
        """
        path = self.folder / "lock.mdb"
        path.unlink(missing_ok=True)
        try:
            path.write_bytes(bytes(_LOCK_HEAD_BYTES + self._max_readers * _READER_BYTES))
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            raise self._errors.full(f"{path}: {os.strerror(error.errno)}", hint=_SPACE_HINT) from error

    def _check_length(self, data: Path) -> None:
        # Touching a mapped page behind the end of the file would kill the process, not raise.
        needed = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        if data.stat().st_size < needed:
            raise self._errors.damaged(f"{data} ends after {data.stat().st_size} of {needed} bytes")

    @contextlib.contextmanager
    def read(self) -> Iterator[Any]:
        """Open a short read transaction (an lmdb `Transaction`); usable from any thread."""
        with self._gate.reader(), self._noting(), self._translated(), self._env.begin() as transaction:
            yield transaction

    def read_long(self) -> LongRead:
        """Open a long read transaction; it is ended when the map must grow or the file is closed."""
        with self._gate.reader(), self._translated():
            long_read = LongRead(self._env.begin(), self._reading, self._long_reads.discard)
            self._long_reads.add(long_read)
        return long_read

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with self._noting(), self._translated():
            yield

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except StoreDamaged as error:
            self.damage = error
            raise

    def scan(self, database: bytes, prefix: bytes, chunk: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys with a prefix and their values, in order; usable from any thread.

        Each chunk has its own read transaction, so transactions stay short even if the caller is slow.
        """
        position = prefix
        while True:
            with self.read() as transaction, transaction.cursor(db=self.databases[database]) as cursor:
                if not cursor.set_range(position):
                    return
                items = list(itertools.islice(cursor.iternext(), chunk))
            for key, value in items:
                if not key.startswith(prefix):
                    return
                yield key, value
            if len(items) < chunk:
                return
            position = items[-1][0] + b"\x00"

    def write(self, work: Callable[[Any], Result]) -> Result:
        """Run `work` in one write transaction, and again in a larger map if it did not fit.

        `work` must have no effect outside of the transaction. Raises `full`, `damaged`, `unusable`.
        """
        while True:
            try:
                with (
                    self._noting(),
                    self._translated((*_FULL, *_CUT_SHORT)),
                    self._env.begin(write=True) as transaction,
                ):
                    return work(transaction)
            except lmdb.MapFullError:
                self._grow()
            except StoreUnusable:
                self._is_flushed = False
                raise

    def _grow(self) -> None:
        now = self._env.info()["map_size"]
        size = min(now * _GROWTH, self._max_size_bytes)
        if size <= now:
            raise self._errors.full(
                f"{self.folder} has the {self._max_size_bytes} bytes that it may have", hint=self._full_hint
            )
        with self._gate.alone(), self._translated():
            # The map cannot move while a transaction is open, and a long read may last for minutes.
            self._end_long_reads()
            self._env.set_mapsize(size)

    def _end_long_reads(self) -> None:
        for long_read in tuple(self._long_reads):
            long_read.end()

    def count(self, database: bytes) -> int:
        """Return the number of records in a database."""
        with self.read() as transaction:
            return int(transaction.stat(self.databases[database])["entries"])

    @property
    def revision(self) -> int:
        """The number of the latest committed transaction."""
        return int(self._env.info()["last_txnid"])

    def size_bytes(self) -> int:
        """Return the size of the file in bytes."""
        return (self.folder / DATA_FILE).stat().st_size

    def sync(self) -> None:
        """Flush to the disk; blocks while the disk works. Raises `full`, `damaged`."""
        try:
            with self._noting(), self._translated():
                self._env.sync(True)
        except LocalStoreError:
            # The system forgets data that it could not flush: a later flush proves nothing about it.
            self._is_flushed = False
            raise

    @contextlib.contextmanager
    def _translated(self, full: tuple[str, ...] = _FULL) -> Iterator[None]:
        """Translate lmdb's errors, except MapFullError, which `write` handles by growing the map.

        `full` are the system's messages that mean a full disk.
        """
        try:
            yield
        except lmdb.MapFullError:
            raise
        except lmdb.Error as error:
            text = f"{self.folder}: {error}"
            if isinstance(error, lmdb.DiskError) or str(error).endswith(full):
                raise self._errors.full(text, hint=_SPACE_HINT) from error
            if isinstance(error, _NO_DAMAGE):
                raise self._errors.unusable(text, hint="start again when the cause is gone") from error
            raise self._errors.damaged(text) from error

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """Flush, close the file, call `then` if every flush succeeded, and unlock the folder."""
        try:
            with self._gate.alone():
                self._end_long_reads()
                try:
                    self.sync()
                finally:
                    self._env.close()
            if self._is_flushed:
                then()
        finally:
            self._lock.release()


def lock_store(folder: Path, errors: ErrorFamily = STORE_ERRORS) -> FolderLock:
    """Lock the folder of a store for this process. Raises `errors.busy`: another process holds it."""
    return FolderLock(
        folder,
        lambda: errors.busy(f"{folder} is in use by another process", hint="stop it or give another --dir"),
        file_name="owner.lock",
    )


def check_structure(data: Path, errors: ErrorFamily = STORE_ERRORS) -> None:
    """Walk every page without handing the file to lmdb, which a crafted page could crash.

    Raises `errors.damaged` with what was found.
    """
    try:
        problems: list[str] = verify_file(str(data), subdir=False)  # type: ignore[no-untyped-call]
    except (OSError, VerifyError) as error:
        raise errors.damaged(f"{data}: {error}") from error
    if problems:
        raise errors.damaged(f"{data}: {problems[0]}")
