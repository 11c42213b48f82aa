"""Checks of entries in threads: libsodium gives the interpreter lock free, so verifying overlaps with I/O.

A process has one pool for its peers and its topics. Work is cut into chunks, and the owners of work take
turns, a chunk at a time. A peer with very much to check delays another by one chunk, not by all its work.
The function that the pool is constructed with decides what the payload of an entry must be.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from culm_models.bamboo.checks import CheckedEntry, Facts, SoundEntry
from culm_models.errors import CulmError

Pair = tuple[bytes, bytes]
Checked = CheckedEntry[Facts] | CulmError
Result = TypeVar("Result")

# The default of 5 ms lets a busy event loop keep a checking thread waiting ninety times as long as one
# signature takes, and the other way round.
SWITCH_INTERVAL_S = 0.0005

# One live entry is checked sooner than a thread is woken for it and back again.
INLINE_PAIRS = 2
CHUNK_PAIRS = 128


class CheckMany(Protocol[Facts]):
    """Checks pairs of entry and payload bytes, from any thread."""

    def __call__(self, pairs: Sequence[Pair], *, verify_signature: bool) -> list[Checked[Facts]]:
        """Return for each pair the checked entry or the error that refuses it, in order."""
        ...


class EntryChecker(Protocol):
    """Checks entries outside the event loop, regardless of the owner of their payloads."""

    def submit(
        self, pairs: Sequence[Pair], *, verify_signature: bool = True
    ) -> Awaitable[Sequence[SoundEntry | CulmError]]:
        """Check pairs of entry and payload bytes; returns one result for each, in order."""
        ...


@dataclass(slots=True)
class _Job(Generic[Facts]):
    """Pairs that were submitted together, and the progress of their checks."""

    pairs: Sequence[Pair]
    verify_signature: bool
    done: asyncio.Future[list[Checked[Facts]]]
    begun: int = 0
    """Number of pairs that are being checked or are done."""
    chunks: dict[int, list[Checked[Facts]]] = field(default_factory=dict)
    """Results of the chunks that are done, by the index of their first pair."""
    finished: int = 0


class CheckPool(Generic[Facts]):
    """Threads that check entries with their payloads. For one event loop at a time.

    Without a number of threads, there is one per core except for the core that is left to the event loop.
    """

    def __init__(self, threads: int | None, check_many: CheckMany[Facts]) -> None:
        if threads is None:
            threads = max(1, (os.cpu_count() or 2) - 1)
        assert threads >= 1, "somebody has to check"
        sys.setswitchinterval(min(SWITCH_INTERVAL_S, sys.getswitchinterval()))
        self._check_many = check_many
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="check")
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="decode")
        # One more than there are threads, so that no thread waits for the event loop between two chunks.
        self._most_running = threads + 1
        self._running = 0
        self._turns: OrderedDict[Hashable, deque[_Job[Facts]]] = OrderedDict()
        self.waiting = 0
        """Number of pairs that were submitted and are not checked yet."""

    def submit(
        self, pairs: Sequence[Pair], *, owner: Hashable = None, verify_signature: bool = True
    ) -> asyncio.Future[list[Checked[Facts]]]:
        """Check pairs of entry and payload bytes; returns one result for each, in order.

        Each `owner` has turns of its own; all calls without an owner share one. A very small number of pairs
        is checked at once in the caller's thread if no other pairs wait. Cancelling the future drops its
        other pairs.
        """
        done: asyncio.Future[list[Checked[Facts]]] = asyncio.get_running_loop().create_future()
        if len(pairs) <= INLINE_PAIRS and not self.waiting:
            done.set_result(self._check_many(pairs, verify_signature=verify_signature))
            return done
        self.waiting += len(pairs)
        self._turns.setdefault(owner, deque()).append(_Job(pairs, verify_signature, done))
        self._go_on()
        return done

    def aside(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run work that takes longer than the event loop may be blocked; one call at a time, in order."""
        return asyncio.get_running_loop().run_in_executor(self._aside, work)

    def _go_on(self) -> None:
        while self._turns and self._running < self._most_running:
            owner, jobs = self._turns.popitem(last=False)
            job = jobs[0]
            if job.done.done():
                # It was cancelled.
                self.waiting -= len(job.pairs) - job.begun
                jobs.popleft()
            else:
                self._begin_chunk(job)
                if job.begun == len(job.pairs):
                    jobs.popleft()
            if jobs:
                self._turns[owner] = jobs

    def _begin_chunk(self, job: _Job[Facts]) -> None:
        first = job.begun
        chunk = job.pairs[first : first + CHUNK_PAIRS]
        job.begun += len(chunk)
        self._running += 1
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._check_many(chunk, verify_signature=job.verify_signature)
        )
        work.add_done_callback(lambda finished: self._finished(job, first, len(chunk), finished))

    def _finished(
        self, job: _Job[Facts], first: int, count: int, work: asyncio.Future[list[Checked[Facts]]]
    ) -> None:
        self._running -= 1
        self.waiting -= count
        if work.cancelled() or job.done.done():
            job.done.cancel()
        elif (error := work.exception()) is not None:
            job.done.set_exception(error)
        else:
            job.chunks[first] = work.result()
            job.finished += count
            if job.finished == len(job.pairs):
                job.done.set_result(
                    [checked for start in sorted(job.chunks) for checked in job.chunks[start]]
                )
        self._go_on()

    def close(self) -> None:
        """Drop the work that waits, and stop the threads after their current chunks."""
        self._turns.clear()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)
