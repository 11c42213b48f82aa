"""The start of a consumer in each partition, and the state that it needs before it hands out entries.

The committed offset tells what the group has handed out, but not the height of each log at that time. So
reading begins at the snapshot's offset, or without one at the start of the topic, and up to the committed
offset records only raise the heights. From there on, repeats and gaps are recognised as without a restart.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer, Message, TopicPartition

from culm_topics.errors import KafkaFailure, OffsetOutOfRange
from culm_topics.kafka.origin import Origin
from culm_topics.logs.consumer.heights import LogHeights
from culm_topics.logs.consumer.snapshot import Snapshot
from culm_topics.readers.broker_errors import ask
from culm_topics.readers.partitions import REQUEST_TIMEOUT_SECONDS, watermarks

Start = Literal["beginning", "end"] | Mapping[int, int]
"""Start of a new reader: the beginning or the end of the topic, or offsets by partition."""
_METADATA_PREFIX = "culm/1/"
_HAS_GAPS = "/gaps"


@dataclass(slots=True)
class PartitionState:
    """One partition that the reader holds; offsets are those of the topic.

    `position`: the next offset to process. `deliver_from`: below it records only raise heights. `end`: the
    offset at which to stop, if any. `learns`: began in the middle, so the first record of a log sets its
    height. `has_gaps`: logs of this partition were set aside, now or by the reader that committed before.
    """

    partition: int
    position: int
    deliver_from: int
    end: int | None = None
    learns: bool = False
    committed: int | None = None
    has_gaps: bool = False

    @property
    def rebuilding(self) -> bool:
        """Whether records here still only raise heights."""
        return self.position < self.deliver_from

    @property
    def finished(self) -> bool:
        """Whether everything up to the end has been processed."""
        return self.end is not None and self.position >= self.end


@dataclass(frozen=True, slots=True)
class Beginning:
    """The rules that decide where partitions begin."""

    topic: str
    origin: Origin
    first_partition_count: int
    start: Start
    start_at: dict[int, int]
    in_group: bool
    stop_at_end: bool


def commit_metadata(topic_id: str, *, has_gaps: bool) -> str:
    """Return the metadata committed with an offset: the topic's id, and whether logs were set aside."""
    return _METADATA_PREFIX + topic_id + (_HAS_GAPS if has_gaps else "")


@dataclass(frozen=True, slots=True)
class _Resume:
    offset: int
    has_gaps: bool = False


def begin(
    client: Consumer,
    partitions: Sequence[int],
    rules: Beginning,
    heights: LogHeights,
    snapshot: Snapshot | None,
) -> list[PartitionState]:
    """Decide where each of `partitions` begins, and load the snapshot's rows into `heights`.

    Raises `OffsetOutOfRange` and `OriginChanged` if the group's position does not fit the topic.
    """
    resume = _resume_offsets(client, partitions, rules)
    states: list[PartitionState] = []
    for partition in partitions:
        low, high = watermarks(client, rules.topic, partition)
        resumed = resume.get(partition)
        end = high if rules.stop_at_end else None
        if resumed is None:
            # Partitions added later are read from their beginning: all their records are new.
            midway = rules.start != "beginning" and partition < rules.first_partition_count
            first = _first_offset(rules, partition, high) if midway else low
            _check_range(rules, partition, first, low, high)
            states.append(PartitionState(partition, first, first, end, learns=midway))
            continue
        _check_range(rules, partition, resumed.offset, low, high)
        states.append(
            PartitionState(
                partition,
                low,
                resumed.offset,
                end,
                committed=resumed.offset,
                has_gaps=resumed.has_gaps,
            )
        )
    if snapshot is not None:
        _load_snapshot(states, heights, snapshot)
    return states


def _first_offset(rules: Beginning, partition: int, end: int) -> int:
    """Return the offset at which a new reader begins that does not read the whole partition."""
    return end if isinstance(rules.start, str) else rules.start.get(partition, end)


def _check_range(rules: Beginning, partition: int, offset: int, low: int, high: int) -> None:
    if not low <= offset <= high:
        raise OffsetOutOfRange(
            f"{rules.topic} partition {partition}: the reading starts at offset {offset}, but the topic "
            f"holds {low} to {high}: records that were not read yet are gone, or the topic is another one"
        )


def committed_offsets(client: Consumer, partitions: Sequence[int], rules: Beginning) -> dict[int, int]:
    """Return the group's committed offsets, as far as there are any.

    Raises `KafkaFailure`, `OriginChanged`.
    """
    return {
        partition: resume.offset for partition, resume in _resume_offsets(client, partitions, rules).items()
    }


def _resume_offsets(client: Consumer, partitions: Sequence[int], rules: Beginning) -> dict[int, _Resume]:
    if not rules.in_group:
        return {
            partition: _Resume(rules.start_at[partition])
            for partition in partitions
            if partition in rules.start_at
        }
    asked = [TopicPartition(rules.topic, partition) for partition in partitions]
    committed = ask(
        f"{rules.topic}: asking for the group's committed offsets",
        REQUEST_TIMEOUT_SECONDS,
        lambda left_s: client.committed(asked, timeout=left_s),
    )
    resume: dict[int, _Resume] = {}
    for position in committed:
        if position.error is not None:
            raise KafkaFailure(f"{rules.topic} partition {position.partition}: {position.error}")
        if position.offset < 0:
            continue
        metadata = position.metadata or ""
        # Offsets that an operator set by hand carry no topic id: they are accepted without this check.
        has_gaps = False
        if metadata.startswith(_METADATA_PREFIX):
            topic_id, has_gaps = _split_metadata(metadata)
            kept = Origin(rules.origin.cluster_id, {rules.topic: topic_id})
            kept.check(rules.origin, what="the group's position", remedy="begin with a new group")
        resume[position.partition] = _Resume(position.offset, has_gaps)
    return resume


def _split_metadata(metadata: str) -> tuple[str, bool]:
    topic_id = metadata.removeprefix(_METADATA_PREFIX)
    return topic_id.removesuffix(_HAS_GAPS), topic_id.endswith(_HAS_GAPS)


def _load_snapshot(states: Sequence[PartitionState], heights: LogHeights, snapshot: Snapshot) -> None:
    loaded = {state.partition: snapshot.load(state.partition) for state in states}
    ahead = [
        state
        for state in states
        if (known := loaded[state.partition]) is not None
        and (state.committed is None or known[0] > state.committed)
    ]
    if ahead:
        # The group was reset (or began anew) after the snapshot: its heights would hide entries that must be
        # handed out again.
        snapshot.wipe()
        heights.change_all()
        return
    for state in states:
        known = loaded[state.partition]
        if known is None:
            continue
        position, rows = known
        state.position = max(state.position, position)
        heights.load(rows, state.partition)


_CHECK_SECONDS = 1.0


class GroupEnd:
    """The ends that the topic had at the first check, and whether the group has committed them."""

    def __init__(self, client: Consumer, rules: Beginning) -> None:
        self._client = client
        self._rules = rules
        self._partitions: Sequence[int] = range(rules.first_partition_count)
        self._ends: dict[int, int] | None = None
        self._checked_s = 0.0
        self.is_reached = False
        """As of the last check."""

    def check(self) -> None:
        """Query the broker, at most once a second. Raises `KafkaFailure`, `OriginChanged`."""
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


class PutOff:
    """Records that wait until no partition raises heights any more; bounded by the size of a batch."""

    def __init__(self, client: Consumer, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._messages: deque[Message] = deque()
        self._paused: set[int] = set()

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, partition: int) -> bool:
        """Whether records of this partition are kept: later ones must not overtake them."""
        return partition in self._paused

    def add(self, message: Message, partition: int) -> None:
        """Keep the record, and pause its partition."""
        self._messages.append(message)
        if partition not in self._paused:
            self._client.pause([TopicPartition(self._topic, partition)])
            self._paused.add(partition)

    def take(self) -> deque[Message]:
        """Return all kept records in the order of their arrival, and resume the partitions."""
        messages, self._messages = self._messages, deque()
        if self._paused:
            self._client.resume([TopicPartition(self._topic, partition) for partition in self._paused])
            self._paused.clear()
        return messages

    def forget(self, gone: frozenset[int]) -> None:
        """Drop the records of partitions that another member holds now."""
        self._paused -= gone
        self._messages = deque(message for message in self._messages if message.partition() not in gone)
