"""Whether a connector lives and is ready: the reasons why not, in words, for probes and for people."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm_connectors.connector import Connector

_BEAT_S = 1.0
# The loop waits for nothing; what takes long happens in threads.
_DEAD_S = 60.0
# Kafka acknowledges within milliseconds, within seconds while it moves leaders.
_STALLED_S = 15.0


class Health:
    """Reasons that hold now, read from any thread. `beat` must be running on the connector's loop."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._beat_s = time.monotonic()

    async def beat(self) -> None:
        """Note that the event loop runs, for ever."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_BEAT_S)

    def why_not_alive(self) -> tuple[str, ...]:
        """Why the process should be started anew; empty while it lives."""
        silent_s = time.monotonic() - self._beat_s
        return (f"the event loop has not run for {silent_s:.0f} s",) if silent_s > _DEAD_S else ()

    def why_not_ready(self) -> tuple[str, ...]:
        """Why no new peers should come here; empty while they are served and Kafka takes what they bring."""
        connector = self._connector
        reasons = [*self.why_not_alive()]
        if connector.state is not None:
            reasons.append(connector.state)
        if connector.is_built:
            if (away := connector.kafka_health.away) is not None:
                reasons.append(away)
            if (full := connector.index.full) is not None:
                reasons.append(f"the index cannot be written: {full}")
            records, _ = connector.producer.in_flight
            waited_s = connector.producer.stalled_s
            if records and waited_s > _STALLED_S:
                reasons.append(f"Kafka has acknowledged none of {records} records for {waited_s:.0f} s")
        return tuple(reasons)

    def last_progress_s(self) -> float | None:
        """Wall-clock time of the latest progress; None before the first.

        That is when records were read from Kafka or acknowledged by it, or when it answered that there is
        nothing to read, while nothing waits to be written.
        """
        connector = self._connector
        if not connector.is_built:
            return None
        ends = connector.kafka_health.ends
        found = [connector.producer.acknowledged_at_s, *(reader.taken_at_s for reader in connector.readers)]
        is_idle = bool(connector.readers) and not connector.producer.in_flight[0]
        if ends is not None and is_idle and sum(one.lag(ends.offsets) for one in connector.readers) == 0:
            found.append(ends.answered_at_s)
        return max((one for one in found if one), default=None)
