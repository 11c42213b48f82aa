"""Checks of entries in threads: libsodium gives the interpreter lock free, so verifying overlaps with I/O.

A process has one pool for its peers and its topics; work is cut in chunks, so that everyone gets a turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from culm_models.errors import CulmError
from culm_models.p2panda.checks import CheckedEntry, check_many

Pair = tuple[bytes, bytes]
Checked = CheckedEntry | CulmError

# The default of 5 ms lets a busy event loop keep a checking thread waiting ninety times as long as one
# signature takes, and the other way round.
SWITCH_INTERVAL_S = 0.0005

# One live entry is checked sooner than a thread is woken for it and back again.
INLINE_PAIRS = 2


class CheckPool:
    """Threads that check entries: form, signature, payload, operation."""

    def __init__(self, threads: int) -> None:
        assert threads >= 1, "somebody has to check"
        sys.setswitchinterval(min(SWITCH_INTERVAL_S, sys.getswitchinterval()))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="check")
        self.waiting = 0

    def submit(
        self, pairs: Sequence[Pair], *, verify_signature: bool = True
    ) -> asyncio.Future[list[Checked]]:
        """Check pairs of entry and operation bytes; one result each, in order.

        Very few pairs, while the threads have nothing to do, are checked here and now.
        """
        if len(pairs) <= INLINE_PAIRS and not self.waiting:
            done: asyncio.Future[list[Checked]] = asyncio.get_running_loop().create_future()
            done.set_result(check_many(pairs, verify_signature=verify_signature))
            return done
        self.waiting += len(pairs)
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: check_many(pairs, verify_signature=verify_signature)
        )
        work.add_done_callback(lambda _: self._finished(len(pairs)))
        return work

    def _finished(self, count: int) -> None:
        self.waiting -= count

    def close(self) -> None:
        """Stop the threads after what they are doing."""
        self._threads.shutdown(wait=True, cancel_futures=True)
