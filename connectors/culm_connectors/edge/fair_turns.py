"""Threads that work for callers in fair turns, and a limit on one caller's share of their time.

A step runs on behalf of the principal that `calling` names around it. The next step is for the address that
has used the least of the threads' time, and within it for the principal that has. Work of the process itself
gets as much time as all callers together. So a caller gains no time by opening further connections, under its
own key or others.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from culm_connectors.rate_limit import TokenBuckets
from culm_connectors.transport.principal import neighbourhood

TURN_S: Final = 0.02
"""Time that a step spends on longer work, in seconds, before others have their turns."""
_STEP_MIN_S: Final = 0.000_02
"""Time for which even the shortest step counts, in seconds."""
_REMEMBERED: Final = 4_096

_A = TypeVar("_A")
_R = TypeVar("_R")
_T = TypeVar("_T")
_A_co = TypeVar("_A_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal on whose behalf a step runs. `address`: the neighbourhood of its network address."""

    address: str
    name: str


_CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)


def work_for(host: str, name: str) -> Token[Caller | None]:
    """Run the work of this task, and of the tasks that it creates, for a principal from now on."""
    return _CALLER.set(Caller(neighbourhood(host), name))


@contextmanager
def calling(host: str, name: str) -> Iterator[None]:
    """Run the work of this task, and of the tasks that it creates, for a principal until the context ends."""
    token = work_for(host, name)
    try:
        yield
    finally:
        _CALLER.reset(token)


def current_caller() -> Caller | None:
    """Return the principal for which this task works; None if it is this process itself."""
    return _CALLER.get()


def caller_address() -> str:
    """Return the neighbourhood of the current caller; empty if it is this process itself."""
    caller = current_caller()
    return "" if caller is None else caller.address


@dataclass(slots=True)
class _Branch(Generic[_T]):
    """Items of one path, or the branches that share one branch's time."""

    used_s: float = 0.0
    """Used time on the siblings' common scale, in seconds; idle branches begin where the others are."""
    waiting: int = 0
    items: deque[_T] = field(default_factory=deque)
    children: dict[str, _Branch[_T]] = field(default_factory=dict)
    order: list[tuple[float, int, str]] = field(default_factory=list)
    """Children with waiting items, by `used_s` as it was when they were pushed."""
    now_s: float = 0.0
    """`used_s` of the child that was served last."""


class FairQueue(Generic[_T]):
    """A queue that serves the path with the least used time next.

    Paths with a common beginning share the time of that beginning.
    """

    def __init__(self) -> None:
        self._root = _Branch[_T]()
        self._numbers = count()

    def __len__(self) -> int:
        return self._root.waiting

    def add(self, path: Sequence[str], item: _T) -> None:
        """Queue an item behind those of its path."""
        branch = self._root
        branch.waiting += 1
        for name in path:
            child = branch.children.get(name)
            if child is None:
                child = branch.children[name] = _Branch()
            if not child.waiting:
                child.used_s = max(child.used_s, branch.now_s)
                heappush(branch.order, (child.used_s, next(self._numbers), name))
            child.waiting += 1
            branch = child
        branch.items.append(item)

    def take(self) -> _T:
        """Remove and return the next item; there must be one."""
        branch = self._root
        branch.waiting -= 1
        while branch.order:
            used_s, _, name = heappop(branch.order)
            child = branch.children[name]
            if child.used_s > used_s:
                # It was served after it was pushed.
                heappush(branch.order, (child.used_s, next(self._numbers), name))
                continue
            branch.now_s = max(branch.now_s, child.used_s)
            child.waiting -= 1
            if child.waiting:
                heappush(branch.order, (child.used_s, next(self._numbers), name))
            branch = child
        return branch.items.popleft()

    def charge(self, path: Sequence[str], seconds: float) -> None:
        """Charge a path with the time that an item took, in seconds."""
        branch = self._root
        for name in path:
            child = branch.children.get(name)
            if child is None:
                return
            child.used_s += max(seconds, _STEP_MIN_S)
            if len(branch.children) > _REMEMBERED:
                _forget_idle(branch)
            branch = child


def _forget_idle(branch: _Branch[_T]) -> None:
    """Forget half of the branches without waiting items: those that have used least lose least by it."""
    idle = sorted((child.used_s, name) for name, child in branch.children.items() if not child.waiting)
    for _, name in idle[: _REMEMBERED // 2]:
        del branch.children[name]


class ShareOfTime:
    """Limit on the share of the threads' time of each principal and each address; 0: unlimited.

    For any thread.
    """

    def __init__(self, share: float, burst_s: float) -> None:
        self._lock = threading.Lock()
        self._buckets = TokenBuckets(share, burst_s, _REMEMBERED)

    def charge(self, caller: Caller, seconds: float, now_s: float) -> float:
        """Charge a caller with time used; returns for how many seconds nothing more may be done for it."""
        with self._lock:
            names = ("name", caller.name), ("address", caller.address)
            return max(self._buckets.of(name).wait_s(seconds, now_s) for name in names)


class LoopTurns:
    """Turns on an event loop, one at a time, fair among callers: for long work in short steps.

    However many callers have such work, everything else on the loop waits for at most one step.
    """

    def __init__(self) -> None:
        self._queue = FairQueue[asyncio.Future[None]]()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the caller's turn, which lasts as long as the context."""
        path = _path_of(current_caller())
        if self._is_taken:
            await self._wait(path)
        self._is_taken = True
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self._queue.charge(path, time.monotonic() - begun_s)
            # The next turn, even if nobody waits for it yet, begins after everything else that the loop has
            # to do.
            asyncio.get_running_loop().call_soon(self._pass_on)

    async def _wait(self, path: tuple[str, ...]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.add(path, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the next one that still waits; it begins after the other work of the loop."""
        while len(self._queue):
            if not (turn := self._queue.take()).cancelled():
                turn.set_result(None)
                return
        self._is_taken = False


def _path_of(caller: Caller | None) -> tuple[str, ...]:
    """Return the path of a caller in the queue, from the largest share to the smallest."""
    return ("itself",) if caller is None else ("callers", caller.address, caller.name)


@dataclass(frozen=True, slots=True)
class _Job:
    path: tuple[str, ...]
    step: Callable[[], Any]
    context: contextvars.Context
    done: Future[Any]


class FairWorker:
    """Runs steps in threads, in fair turns among callers. `after` runs after each step, in its thread.

    Each step with its `after`, and the last step, run within a context that `watching` makes. The time of a
    `metered` step counts towards the caller's share.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int = 1,
        after: Callable[[], None] = lambda: None,
        busy_share: float = 0.0,
        busy_burst_s: float = 1.0,
        watching: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, name)
        self._after = after
        self._watching = watching
        self._share = ShareOfTime(busy_share, busy_burst_s)
        self._lock = threading.Lock()
        self._queue = FairQueue[_Job]()

    async def call(self, step: Callable[[], _T], *, metered: bool = False) -> _T:
        """Return the result of `step`, which runs in its turn.

        Cancelling the caller does not stop a running step.
        """
        caller = current_caller()
        path = _path_of(caller)
        if metered and caller is not None:
            step = self._metered(step, caller)
        job = _Job(path, step, contextvars.copy_context(), Future())
        with self._lock:
            self._queue.add(path, job)
        self._pool.submit(self._run_next)
        result: _T = await asyncio.wrap_future(job.done)
        return result

    def _metered(self, step: Callable[[], _T], caller: Caller) -> Callable[[], _T]:
        def timed() -> _T:
            begun_s = time.monotonic()
            try:
                return step()
            finally:
                now_s = time.monotonic()
                self._share.charge(caller, now_s - begun_s, now_s)

        return timed

    async def until_allowed(self) -> None:
        """Wait while the caller, or its address, has used more than its share."""
        caller = current_caller()
        if caller is not None and (pause_s := self._share.charge(caller, 0.0, time.monotonic())) > 0:
            await asyncio.sleep(pause_s)

    def _run_next(self) -> None:
        with self._lock:
            job = self._queue.take()
        if not job.done.set_running_or_notify_cancel():
            return
        begun_s = time.monotonic()
        result, error = None, None
        try:
            with self._watching():
                result = job.context.run(job.step)
                self._after()
        except BaseException as failed:
            error = failed
        with self._lock:
            self._queue.charge(job.path, time.monotonic() - begun_s)
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)

    async def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """Finish the steps that were requested, then run `last`."""

        def run() -> None:
            with self._watching():
                last()

        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, run)
        finally:
            self._pool.shutdown()


class RunStep(Protocol[_A_co]):
    """Runs a step in the right thread, and passes it the object that it works on."""

    def __call__(self, step: Callable[[_A_co], _R], /) -> Awaitable[_R]:
        """Return the result of a step."""
        ...


async def in_turns(
    run: RunStep[_A],
    begin: Callable[[_A], Generator[None, None, _T]],
    clock_s: Callable[[], float] = time.monotonic,
) -> _T:
    """Return the result of a generator that is advanced in steps of a bounded time.

    Each step runs as many of the generator's own steps as fit.
    """
    steps: Generator[None, None, _T] | None = None

    def turn(argument: _A) -> tuple[_T] | None:
        nonlocal steps
        steps = steps or begin(argument)
        until_s = clock_s() + TURN_S
        while clock_s() < until_s:
            try:
                next(steps)
            except StopIteration as end:
                return (end.value,)
        return None

    while (ended := await run(turn)) is None:
        pass
    return ended[0]


def at_once(steps: Generator[None, None, _T]) -> _T:
    """Return the result of a generator, advanced to its end at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
