"""What peers are known to hold, on its way to `holdings`: merged while it waits.

They hold what they brought, until they say of a payload that they have it not (byte 6).
"""

from __future__ import annotations

from typing import Final

from culm_connectors.kafka import ProducerRecord
from culm_models.bamboo.range_set import RangeSet
from culm_topics.logs.records import holding_records

_MAX_LOGS: Final = 200_000


class Holdings:
    """By peer and log (both as in Kafka): entries and payloads newly known to be held, and not to be held."""

    def __init__(self) -> None:
        self.dropped = 0
        """Logs that did not fit while Kafka was slow."""
        self._new: dict[tuple[bytes, bytes], tuple[RangeSet, RangeSet, RangeSet]] = {}

    def add(self, peer: bytes, log: bytes, seq_num: int, *, entry: bool, payload: bool) -> None:
        """A peer holds this."""
        found = self._of(peer, log)
        if found is None:
            return
        entries, payloads, lacking = found
        if entry:
            entries.add(seq_num, seq_num + 1)
        if payload:
            payloads.add(seq_num, seq_num + 1)
            lacking.remove(seq_num, seq_num + 1)

    def lacks_payload(self, peer: bytes, log: bytes, seq_num: int) -> None:
        """A peer does not hold this payload, if it ever did."""
        found = self._of(peer, log)
        if found is not None:
            _, payloads, lacking = found
            payloads.remove(seq_num, seq_num + 1)
            lacking.add(seq_num, seq_num + 1)

    def _of(self, peer: bytes, log: bytes) -> tuple[RangeSet, RangeSet, RangeSet] | None:
        found = self._new.get((peer, log))
        if found is None:
            if len(self._new) >= _MAX_LOGS:
                self.dropped += 1
                return None
            found = self._new[peer, log] = RangeSet(), RangeSet(), RangeSet()
        return found

    def take(self) -> list[ProducerRecord]:
        """The records of all that is new."""
        taken, self._new = self._new, {}
        return [
            ProducerRecord(peer, record.encode())
            for (peer, log), ranges in taken.items()
            for record in holding_records(log, *ranges)
        ]
