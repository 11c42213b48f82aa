"""Threads that work for callers in fair turns, and the share of their time that one caller may use.

A step is run for whoever `calling` names around it. Next is the address that has used least of the threads'
time, and at an address the principal that has; what a process does for itself has as much as all callers
together. So nobody waits longer for opening further connections, under other keys or not, than for working.
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
"""How long a step works on something that takes longer, before others have their turns."""
_STEP_MIN_S: Final = 0.000_02
"""What the shortest step counts for."""
_REMEMBERED: Final = 4_096

_A = TypeVar("_A")
_R = TypeVar("_R")
_T = TypeVar("_T")
_A_co = TypeVar("_A_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody on whose behalf a step is run. `address`: the neighbourhood that it calls from."""

    address: str
    name: str


_CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)


def work_for(host: str, name: str) -> Token[Caller | None]:
    """From now on, what this task and those that it creates have done is for a principal."""
    return _CALLER.set(Caller(neighbourhood(host), name))


@contextmanager
def calling(host: str, name: str) -> Iterator[None]:
    """Until the context ends, what this task and those that it creates have done is for a principal."""
    token = work_for(host, name)
    try:
        yield
    finally:
        _CALLER.reset(token)


def current_caller() -> Caller | None:
    """The principal that is worked for; None where it is this process itself."""
    return _CALLER.get()


def caller_address() -> str:
    """The neighbourhood of the caller that is worked for; empty where it is this process itself."""
    caller = current_caller()
    return "" if caller is None else caller.address


@dataclass(slots=True)
class _Branch(Generic[_T]):
    """Items of one path, or the paths that share the time of one."""

    used_s: float = 0.0
    """Of its siblings' common time; whoever was away begins where the others are."""
    waiting: int = 0
    items: deque[_T] = field(default_factory=deque)
    children: dict[str, _Branch[_T]] = field(default_factory=dict)
    order: list[tuple[float, int, str]] = field(default_factory=list)
    """The children for whom something waits, by `used_s` as it was when they were put here."""
    now_s: float = 0.0
    """`used_s` of the child that was next."""


class FairQueue(Generic[_T]):
    """A queue whose next item is of the path that has used least; paths that begin alike share there."""

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
        """The next item; there must be one."""
        branch = self._root
        branch.waiting -= 1
        while branch.order:
            used_s, _, name = heappop(branch.order)
            child = branch.children[name]
            if child.used_s > used_s:
                # It was served since it was put here.
                heappush(branch.order, (child.used_s, next(self._numbers), name))
                continue
            branch.now_s = max(branch.now_s, child.used_s)
            child.waiting -= 1
            if child.waiting:
                heappush(branch.order, (child.used_s, next(self._numbers), name))
            branch = child
        return branch.items.popleft()

    def charge(self, path: Sequence[str], seconds: float) -> None:
        """An item of a path took so long."""
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
    """Forget half of those who wait for nothing: who has used least has least to be remembered for."""
    idle = sorted((child.used_s, name) for name, child in branch.children.items() if not child.waiting)
    for _, name in idle[: _REMEMBERED // 2]:
        del branch.children[name]


class ShareOfTime:
    """How much of the threads' time one principal may use, and one address; 0 is any. For any thread."""

    def __init__(self, share: float, burst_s: float) -> None:
        self._lock = threading.Lock()
        self._buckets = TokenBuckets(share, burst_s, _REMEMBERED)

    def charge(self, caller: Caller, seconds: float, now_s: float) -> float:
        """So much was used: for how long nothing more is to be done for this caller, in seconds."""
        with self._lock:
            names = ("name", caller.name), ("address", caller.address)
            return max(self._buckets.of(name).wait_s(seconds, now_s) for name in names)


class LoopTurns:
    """Turns on an event loop, one at a time, of callers in fair turns: for long work in short steps.

    However many have such work, everybody else waits for one step of it.
    """

    def __init__(self) -> None:
        self._queue = FairQueue[asyncio.Future[None]]()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until it is the caller's turn, which lasts as long as the context."""
        path = _path_of(current_caller())
        if self._is_taken:
            await self._wait(path)
        self._is_taken = True
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self._queue.charge(path, time.monotonic() - begun_s)
            # The next turn, also one that nobody waits for yet, is behind whatever else the loop has to do.
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
        """The next one that still waits has its turn; it begins when all others on the loop had theirs."""
        while len(self._queue):
            if not (turn := self._queue.take()).cancelled():
                turn.set_result(None)
                return
        self._is_taken = False


def _path_of(caller: Caller | None) -> tuple[str, ...]:
    """Whose time it is, from the largest share to the smallest."""
    return ("itself",) if caller is None else ("callers", caller.address, caller.name)


@dataclass(frozen=True, slots=True)
class _Job:
    path: tuple[str, ...]
    step: Callable[[], Any]
    context: contextvars.Context
    done: Future[Any]


class FairWorker:
    """Runs steps in threads, those of callers in fair turns. `after` runs behind each, in its thread.

    A step, what runs behind it, and what runs last are within a context that `watching` makes.
    What is `metered` counts to the caller's share of the time.
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
        """The result of `step`, which runs in its turn; a cancelled caller does not stop one that runs."""
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
        """Finish what was asked for, then `last`."""

        def run() -> None:
            with self._watching():
                last()

        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, run)
        finally:
            self._pool.shutdown()


class RunStep(Protocol[_A_co]):
    """Runs a step where it may be run, and gives it what it works on."""

    def __call__(self, step: Callable[[_A_co], _R], /) -> Awaitable[_R]:
        """The result of a step."""
        ...


async def in_turns(
    run: RunStep[_A],
    begin: Callable[[_A], Generator[None, None, _T]],
    clock_s: Callable[[], float] = time.monotonic,
) -> _T:
    """The result of a generator that is advanced in steps of a bounded time, whatever its own steps take."""
    steps: Generator[None, None, _T] | None = None

    def turn(given: _A) -> tuple[_T] | None:
        nonlocal steps
        steps = steps or begin(given)
        until_s = clock_s() + TURN_S
        while clock_s() < until_s:
            try:
                next(steps)
            except StopIteration as end:
                return (end.value,)
        return None

    while (found := await run(turn)) is None:
        pass
    return found[0]


def at_once(steps: Generator[None, None, _T]) -> _T:
    """The result of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
