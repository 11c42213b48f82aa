"""An event loop in which waiting takes no time: its clock leaps to whatever is due next.

Threads there are none: what asks for an executor runs at once. So a run is decided by its inputs alone.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple
from unittest.mock import patch

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

START_S = 1_000_000.0
"""Small enough for nanoseconds: what is due now must not be before the next number behind now."""


class _LeapingSelector(selectors.SelectSelector):
    """Waits for nobody, and says how long it would have waited."""

    now_s = START_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is due, ever")
        self.now_s += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._clock = _LeapingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Virtual seconds."""
        return self._clock.now_s

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Run it now."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to its end, with every clock of the process following the loop's."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        clock = runner.get_loop().time
        with patch.object(time, "monotonic", clock), patch.object(time, "time", clock):
            return runner.run(main)
