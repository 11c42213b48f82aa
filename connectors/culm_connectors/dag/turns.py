"""Long work in short turns, so that others have theirs between."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Final, Protocol, TypeVar

TURN_S: Final = 0.02
_A = TypeVar("_A")
_T = TypeVar("_T")
_R = TypeVar("_R")
_A_co = TypeVar("_A_co", covariant=True)


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
