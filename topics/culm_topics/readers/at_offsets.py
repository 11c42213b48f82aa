"""Reads single records by their offsets, for tools that follow a reference to a record."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_until

_NEAR_RECORDS: Final = 1_000
"""Wanted offsets that are at most this far apart are read together; longer distances are skipped."""
SINGLE_RECORDS: Final[Mapping[str, str]] = {
    # Wanted records are close together; records fetched beyond them are wasted.
    "fetch.message.max.bytes": str(1024 * 1024),
    "queued.min.messages": "100",
    "queued.max.messages.kbytes": str(4 * 1024),
    "fetch.wait.max.ms": "10",
    # A queue that was full in one retrieval must not delay the next one by a second.
    "fetch.queue.backoff.ms": "5",
}
"""Client properties for a reader of single records that is used repeatedly."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An offset at which the topic has no record; the text says why.

    `expired`: retention has removed it. `compacted`: a newer record with its key has replaced it. `beyond`:
    the topic ends before it, so it was created again since, or belongs to another cluster. `partition`: the
    topic does not have the partition.
    """

    topic: str
    partition: int
    offset: int
    reason: Literal["expired", "compacted", "beyond", "partition"]
    bound: int
    """The first offset of the partition, its end, or the number of partitions, as the reason requires."""

    def __str__(self) -> str:
        place = f"offset {self.offset} of {self.topic} partition {self.partition}"
        return {
            "expired": f"retention has removed {place}, which begins at {self.bound} now",
            "compacted": f"compaction has removed {place}",
            "beyond": f"{place} does not exist: the partition ends at {self.bound}, so the topic was created "
            "again since, or this is another cluster",
            "partition": f"{place} does not exist: the topic has {self.bound} partitions",
        }[self.reason]


def read_at(
    reader: TopicPartitions, offsets: Mapping[int, Collection[int]]
) -> Iterator[TopicMessage | Absent]:
    """Yield the record at each of these offsets by partition, in order, or why there is none.

    Raises `TopicMissing`, `KafkaFailure`.
    """
    count = reader.count()
    for partition, unordered in sorted(offsets.items()):
        wanted = sorted(unordered)
        if partition >= count:
            yield from (Absent(reader.topic, partition, offset, "partition", count) for offset in wanted)
            continue
        first, end = reader.range_of(partition)
        present = []
        for offset in wanted:
            if offset < first:
                yield Absent(reader.topic, partition, offset, "expired", first)
            elif offset >= end:
                yield Absent(reader.topic, partition, offset, "beyond", end)
            else:
                present.append(offset)
        for run in runs(present, _NEAR_RECORDS):
            yield from _read_run(reader, partition, run)


def runs(offsets: Iterable[int], distance: int) -> list[list[int]]:
    """Return the offsets in order, in runs that are split at distances of more than `distance`."""
    cut: list[list[int]] = []
    for offset in sorted(offsets):
        if cut and offset - cut[-1][-1] <= distance:
            cut[-1].append(offset)
        else:
            cut.append([offset])
    return cut


def _read_run(reader: TopicPartitions, partition: int, run: Sequence[int]) -> Iterator[TopicMessage | Absent]:
    wanted = iter(run)
    offset = next(wanted, None)
    reader.assign({partition: run[0]})
    for message in read_until(reader, {partition: run[-1] + 1}):
        while offset is not None and offset < message.offset:
            yield Absent(reader.topic, partition, offset, "compacted", message.offset)
            offset = next(wanted, None)
        if offset == message.offset:
            yield message
            offset = next(wanted, None)
    while offset is not None:
        yield Absent(reader.topic, partition, offset, "compacted", offset)
        offset = next(wanted, None)
