"""The one thread that writes a local store, used from the event loop.

While the disk is full, the thread waits and all later writes wait behind it. For programs that end when the
disk is full, it is an error instead.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from culm_connectors.local_store.errors import StoreFull

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class WritingThread:
    """Runs the writes to the store in `folder` one after the other.

    `retry_interval_s`: seconds between attempts of a write while the store is full; None: no further attempt.
    """

    def __init__(self, name: str, folder: Path, *, retry_interval_s: float | None = 5.0) -> None:
        self.full: str | None = None
        """The reason for which nothing can be written now; None if writing is possible."""
        self._folder = folder
        self._retry_interval_s = retry_interval_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closing = threading.Event()

    @property
    def is_closing(self) -> bool:
        """True once the thread is closing."""
        return self._closing.is_set()

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` after all earlier writes, and retry it while the store is full.

        Raises `StoreFull` when the thread is closed while it waits, or if it does not retry.
        """
        return asyncio.get_running_loop().run_in_executor(self._thread, self._with_capacity, work)

    def _with_capacity(self, work: Callable[[], Result]) -> Result:
        # Waits in the thread that writes: what comes later must not overtake what it follows.
        while True:
            try:
                done = work()
            except StoreFull as error:
                if self._retry_interval_s is None:
                    raise
                if self.full is None:
                    logger.error(
                        "%s (%s); nothing is taken until there is room: %s", error, error.code, error.hint
                    )
                self.full = f"{error} ({error.code})"
                if self._closing.wait(self._retry_interval_s):
                    raise
            else:
                if self.full is not None:
                    logger.info("%s: there is room again", self._folder)
                self.full = None
                return done

    def close(self) -> None:
        """Finish pending writes, if there is space, and stop the thread."""
        self._closing.set()
        self._thread.shutdown(wait=True)
