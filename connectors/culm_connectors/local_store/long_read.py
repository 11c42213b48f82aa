"""A read transaction that outlives one call: everything that it reads is of one moment.

While it lasts, lmdb frees none of the pages that it sees, so it should be ended soon.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from culm_connectors.local_store.errors import SnapshotLost


class LongRead:
    """A transaction that any thread may use, one at a time, until it is ended here or by its file.

    `guard` makes the context of every use; `ended` is called at the end.
    """

    def __init__(
        self,
        transaction: Any,
        guard: Callable[[], contextlib.AbstractContextManager[None]],
        ended: Callable[[LongRead], None],
    ) -> None:
        self._transaction: Any = transaction
        self._guard = guard
        self._ended = ended
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def use(self) -> Iterator[Any]:
        """Yield the transaction; `end` waits for the context to finish. Raises `SnapshotLost` once ended."""
        with self._lock:
            if self._transaction is None:
                raise SnapshotLost("a snapshot that is over was read", hint="take another one")
            with self._guard():
                yield self._transaction

    def end(self) -> None:
        """End the transaction. Harmless when repeated."""
        with self._lock:
            if self._transaction is not None:
                self._transaction.abort()
                self._transaction = None
        self._ended(self)
