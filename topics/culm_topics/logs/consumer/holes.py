"""Decides when a hole in a log counts as a gap: its deadline has passed, and the topic has been read."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer

from culm_topics.logs.consumer.assignment import PartitionState
from culm_topics.logs.consumer.heights import Hole
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.readers.partitions import watermarks
from culm_topics.readers.topic_watch import TopicWatch

_CHECK_SECONDS = 0.5


class HoleWatch:
    """Sets logs aside for one reader, whose partitions it observes."""

    def __init__(
        self,
        client: Consumer,
        topic: str,
        watch: TopicWatch,
        sequencer: Sequencer,
        partitions: Mapping[int, PartitionState],
    ) -> None:
        self._client = client
        self._topic = topic
        self._watch = watch
        self._sequencer = sequencer
        self._partitions = partitions
        self._checked_s = 0.0

    def check(self) -> None:
        """Set aside the logs whose holes will not be filled; checks at most twice a second."""
        holes = self._sequencer.early.holes
        now_s = time.monotonic()
        if not holes or now_s - self._checked_s < _CHECK_SECONDS:
            return
        self._checked_s = now_s
        self._sequencer.release()
        if any(hole.ends is None for hole in holes):
            ends = {
                partition: watermarks(self._client, self._topic, partition)[1]
                for partition in self._partitions
            }
            for hole in holes:
                if hole.ends is None:
                    hole.ends = ends
        positions = {partition: state.position for partition, state in self._partitions.items()}
        for hole in holes:
            if hole.is_gap(positions, now_s):
                self._set_aside(hole)

    def give_up_all(self) -> None:
        """Set aside all logs with holes: at the end, no missing entry will arrive."""
        for hole in self._sequencer.early.holes:
            self._set_aside(hole)

    def _set_aside(self, hole: Hole) -> None:
        """Set a log aside, and mark its partitions so that the next reader knows that logs have gaps."""
        for entry in hole.records.values():
            if entry.partition in self._partitions:
                self._partitions[entry.partition].has_gaps = True
        is_partial = len(self._partitions) < self._watch.partition_count
        self._sequencer.set_aside(
            hole, "; it may be in a partition that another member of the group reads" if is_partial else ""
        )
