"""What peers are known to hold, on its way to `holdings`: what they brought, merged while it waits."""

from __future__ import annotations

from typing import Final

from culm_connectors.kafka import ProducerRecord
from culm_models.bamboo.range_set import RangeSet
from culm_topics.logs.records import holding_records

_MAX_LOGS: Final = 200_000


class Holdings:
    """By peer and log (both as in Kafka): entries and payloads that are newly known to be held."""

    def __init__(self) -> None:
        self.dropped = 0
        """Logs that did not fit while Kafka was slow."""
        self._new: dict[tuple[bytes, bytes], tuple[RangeSet, RangeSet]] = {}

    def add(self, peer: bytes, log: bytes, seq_num: int, *, entry: bool, payload: bool) -> None:
        """A peer holds this."""
        found = self._new.get((peer, log))
        if found is None:
            if len(self._new) >= _MAX_LOGS:
                self.dropped += 1
                return
            found = self._new[peer, log] = RangeSet(), RangeSet()
        for ranges, holds in zip(found, (entry, payload), strict=True):
            if holds:
                ranges.add(seq_num, seq_num + 1)

    def take(self) -> list[ProducerRecord]:
        """The records of all that is new."""
        taken, self._new = self._new, {}
        return [
            ProducerRecord(peer, record.encode())
            for (peer, log), (entries, payloads) in taken.items()
            for record in holding_records(log, entries, payloads)
        ]
