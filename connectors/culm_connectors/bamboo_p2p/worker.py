"""One thread for all that works on the logs of a peer: the loop only moves bytes.

Hashes, compression and the disk never hold up the loop, and the models never see two threads. Signatures that
came together are verified by all cores: libsodium frees the interpreter lock meanwhile.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

from culm_models.keys import verify_all

_SHARE_MIN: Final = 4
"""Fewer signatures are verified sooner than a thread is woken for them."""

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


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "signatures")


def verify_in_threads(public_key: bytes, signed: Sequence[bytes]) -> list[bool]:
    """As `keys.verify_all`, by as many threads as the machine has cores; the caller is one of them."""
    shares = min(os.cpu_count() or 1, len(signed) // _SHARE_MIN)
    if shares < 2:
        return verify_all(public_key, signed)
    pool = _threads((os.cpu_count() or 1) - 1)
    size = -(-len(signed) // shares)
    cuts = [signed[begin : begin + size] for begin in range(0, len(signed), size)]
    others = [pool.submit(verify_all, public_key, cut) for cut in cuts[1:]]
    verdicts = verify_all(public_key, cuts[0])
    for other in others:
        verdicts += other.result()
    return verdicts
