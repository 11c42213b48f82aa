"""One thread for all that works on the logs of a peer: the loop only moves bytes.

Hashes, signatures, compression and the disk never hold up the loop, and the models never see two threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


class Worker:
    """Runs one call after the other. `after` runs behind each of them, in the thread."""

    def __init__(self, name: str, after: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._after = after

    async def call(self, step: Callable[[], _T]) -> _T:
        """The result of `step`, once all before it are through; a cancelled caller does not stop it."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, step)

    def _run(self, step: Callable[[], _T]) -> _T:
        result = step()
        self._after()
        return result

    async def stop(self, last: Callable[[], None]) -> None:
        """Finish what was asked for, then `last`."""
        await asyncio.get_running_loop().run_in_executor(self._pool, last)
        self._pool.shutdown()
