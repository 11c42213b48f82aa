"""Liveness and readiness of a connector: the reasons against them, in words, for probes and for people."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from culm_connectors.edge.doors import Doors
from culm_connectors.edge.opening.shared_services import SharedServices
from culm_connectors.edge.protocol import EdgeProtocol
from culm_connectors.kafka import BatchProducer, KafkaHealth, TopicReader

_BEAT_S = 1.0
# The loop never blocks; long work happens in threads.
_DEAD_S = 60.0
# Kafka acknowledges within milliseconds, within seconds while it moves leaders.
_STALLED_S = 15.0


@dataclass(frozen=True, slots=True)
class Running:
    """A connector whose protocols are open: Kafka has answered, and their local stores have been read."""

    kafka: KafkaHealth
    producer: BatchProducer
    protocols: Mapping[str, EdgeProtocol]
    """The open protocols, by name."""
    services: SharedServices
    """The services that the protocols share."""
    doors: Doors

    @property
    def readers(self) -> tuple[TopicReader, ...]:
        """Return all open readers of topics."""
        return tuple(reader for protocol in self.protocols.values() for reader in protocol.readers)

    def lag(self, protocol: EdgeProtocol) -> Counter[str] | None:
        """Return the records of each topic that a protocol has not read yet; None until the ends are known.

        A topic with several readers counts once for each of them.
        """
        if (ends := self.kafka.ends) is None:
            return None
        lag: Counter[str] = Counter()
        for reader in tuple(protocol.readers):
            lag[reader.topic] += reader.lag(ends.offsets)
        return lag


class Health:
    """Current reasons, for any thread. `beat` must be running on the connector's loop.

    `state` returns what the whole process is doing, or None; `running` returns None until the protocols are
    open.
    """

    def __init__(self, state: Callable[[], str | None], running: Callable[[], Running | None]) -> None:
        self._state = state
        self._running = running
        self._beat_s = time.monotonic()

    async def beat(self) -> None:
        """Record that the event loop runs, forever."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_BEAT_S)

    def why_not_alive(self) -> tuple[str, ...]:
        """Return why the process should be restarted; empty while it is alive."""
        silent_s = time.monotonic() - self._beat_s
        return (f"the event loop has not run for {silent_s:.0f} s",) if silent_s > _DEAD_S else ()

    def why_not_ready(self) -> tuple[str, ...]:
        """Return why no new peers should connect; empty while they are served and Kafka accepts data."""
        reasons = [*self.why_not_alive()]
        if (state := self._state()) is not None:
            reasons.append(state)
        if (running := self._running()) is not None:
            for protocol in running.protocols.values():
                reasons.extend(protocol.why_not_ready())
            if (away := running.kafka.away) is not None:
                reasons.append(away)
            records, _ = running.producer.in_flight
            waited_s = running.producer.stalled_s
            if records and waited_s > _STALLED_S:
                reasons.append(f"Kafka has acknowledged none of {records} records for {waited_s:.0f} s")
        return tuple(reasons)

    def last_progress_s(self) -> float | None:
        """Return the wall-clock time of the latest progress, in seconds since 1970; None before the first.

        Progress means that records were read from Kafka or acknowledged by it, or that it answered that there
        is nothing to read, while nothing waits to be written.
        """
        running = self._running()
        if running is None:
            return None
        ends, readers = running.kafka.ends, running.readers
        times_s = [running.producer.acknowledged_at_s, *(reader.taken_at_s for reader in readers)]
        is_idle = bool(readers) and not running.producer.in_flight[0]
        if ends is not None and is_idle and sum(reader.lag(ends.offsets) for reader in readers) == 0:
            times_s.append(ends.answered_at_s)
        return max((time_s for time_s in times_s if time_s), default=None)
