"""Whether a group has read everything: what a member without a partition asks before it ends at the end."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer

from culm_topics.logs.consumer.assignment import Beginning, committed_offsets
from culm_topics.readers.offsets import watermarks

_CHECK_SECONDS = 1.0


class GroupEnd:
    """The ends that the topic had when it was first asked, and whether the group has committed them."""

    def __init__(self, client: Consumer, rules: Beginning) -> None:
        self._client = client
        self._rules = rules
        self._partitions: Sequence[int] = range(rules.first_partition_count)
        self._ends: dict[int, int] | None = None
        self._checked_s = 0.0
        self.is_reached = False
        """As of the last check."""

    def check(self) -> None:
        """Ask the broker, once a second at most. Raises `KafkaFailure`, `OriginChanged`."""
        now_s = time.monotonic()
        if now_s - self._checked_s < _CHECK_SECONDS:
            return
        self._checked_s = now_s
        if self._ends is None:
            self._ends = {
                partition: watermarks(self._client, self._rules.topic, partition)[1]
                for partition in self._partitions
            }
        committed = committed_offsets(self._client, self._partitions, self._rules)
        self.is_reached = all(committed.get(partition, 0) >= end for partition, end in self._ends.items())
