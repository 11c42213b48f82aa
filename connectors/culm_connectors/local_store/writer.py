"""The one thread that writes a local store, seen from the event loop.

A full disk is waited for in that thread, with everything that is to be written later waiting behind it, or
is an error for programs that end with it.
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
    """Runs what writes to the store in `folder`, one after the other.

    `retry_interval_s`: how often a write is tried again while there is no room; None: never.
    """

    def __init__(self, name: str, folder: Path, *, retry_interval_s: float | None = 5.0) -> None:
        self.full: str | None = None
        """Why nothing can be written now, None where it can."""
        self._folder = folder
        self._retry_interval_s = retry_interval_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closing = threading.Event()

    @property
    def is_closing(self) -> bool:
        """Whether it takes nothing more."""
        return self._closing.is_set()

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run this in its turn, again and again while there is no room for it.

        Raises StoreFull when the thread is closed while it waits, or does not wait.
        """
        return asyncio.get_running_loop().run_in_executor(self._thread, self._when_there_is_room, work)

    def _when_there_is_room(self, work: Callable[[], Result]) -> Result:
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
        """Finish what is being written, if there is room, and stop the thread."""
        self._closing.set()
        self._thread.shutdown(wait=True)
