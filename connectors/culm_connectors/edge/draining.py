"""Draining: ends the service of a connector in order, so that peers connect elsewhere and no data is lost.

1. At once, readiness is 503 with the reason "draining". Peers may still connect for `unready_s`, in which
   load balancers notice it.
2. The doors refuse further connections with `shutting_down` (0x101), and no peer is dialled any more.
3. The open connections are ended one after the other over `spread_s`, or all at once if the process has to
   end soon. Peers take both for a reason to connect again, not for a failure.
4. The protocols, and then the services that they share, finish: everything that was received is in Kafka.

A second request hurries: it skips the rest of the waits in the first and the third step.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from culm_connectors.edge.serving import Ending
from culm_connectors.settings import DrainSettings

logger = logging.getLogger(__name__)

STATE: Final = "draining"
"""State of a draining process, and its reason for not being ready."""
REASON: Final = "this connector stops: connect again"
"""Reason that peers receive with the end of their connection."""
UNREADY, ENDING, FINISHING = "unready", "ending", "finishing"
"""Steps: not ready, but served; connections are ended; received data is on its way to Kafka."""
_LEAVING_S: Final = 5.0
"""Time in which ended connections have to leave before they are cut off."""
_LOOK_S: Final = 0.02


class Draining:
    """The drain of one connector. The methods of this class run on its loop, `document` in any thread."""

    def __init__(self, settings: DrainSettings) -> None:
        self.requested = asyncio.Event()
        self.closing = asyncio.Event()
        """Set once no further connections are accepted or dialled."""
        self.step: str | None = None
        self.signal: str | None = None
        """Name of the signal that requests a drain; None if the process handles none."""
        self._settings = settings
        self._is_spread = False
        self._hurried = asyncio.Event()
        self._began_ms: int | None = None

    def request(self, *, is_spread: bool) -> None:
        """Begin to drain; `is_spread`: over the time of the settings. A second request hurries."""
        if self.requested.is_set():
            self.hurry()
            return
        self._is_spread = is_spread
        self.step, self._began_ms = UNREADY, int(time.time() * 1000)
        logger.info("draining")
        self.requested.set()

    def hurry(self) -> None:
        """Skip the waits that are left, for a process that should end soon or serves nobody."""
        self._hurried.set()

    async def end_connections(
        self,
        refuse: Callable[[str], None],
        endings: Callable[[str], Sequence[Sequence[Ending]]],
        connected: Callable[[], int],
    ) -> None:
        """Carry out the first three steps.

        `refuse` makes the doors refuse connections, `endings` returns the endings of the open connections of
        each protocol, also of those that were ended and have not left, and `connected` the number of
        connections that are still open.
        """
        await self._pause(self._settings.unready_s)
        self.step = ENDING
        refuse(REASON)
        self.closing.set()
        # Protocols in turn: all of them lose connections at an even rate.
        in_turn = [end for end in chain(*zip_longest(*endings(REASON))) if end is not None]
        apart_s = self._settings.spread_s / len(in_turn) if self._is_spread and in_turn else 0.0
        for number, end in enumerate(in_turn):
            if number:
                await self._pause(apart_s)
            end()
        until_s = time.monotonic() + _LEAVING_S
        while connected() and time.monotonic() < until_s:
            await asyncio.sleep(_LOOK_S)
            # Handshakes that were under way as the doors closed may have led to further connections.
            for end in chain(*endings(REASON)):
                end()
        self.step = FINISHING

    async def _pause(self, seconds: float) -> None:
        if seconds and not self._hurried.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hurried.wait()

    def document(self, connections: int) -> dict[str, Any]:
        """Return the part of the status document about the drain."""
        return {
            "signal": self.signal,
            "step": self.step,
            "began_ms": self._began_ms,
            "unready_s": self._settings.unready_s,
            "spread_s": self._settings.spread_s,
            "connections": connections,
        }


async def finish_within(timeout_s: float, work: Awaitable[None], name: str) -> None:
    """Await work that must not hold up the end of a process."""
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        logger.warning(
            "stopping without waiting longer for Kafka: the last data that %s received is not kept; "
            "peers send it again",
            name,
        )
