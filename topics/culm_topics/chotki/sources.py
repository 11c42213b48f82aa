"""Sources: their owners, and the exclusive use of a source by one writer (reference 9.2 rule 10, 10.10).

The topic `chotki.sources` decides, in its order: a claim holds if the source is free or has the same run
already, a record without a run frees it, and any other claim is void, whoever wrote it. So if two claim a
source at once, all readers see the same winner. A source that was retired stays so, and is never assigned
again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping
from typing import Final

from culm_models.chotki.log0 import SYSTEM_SOURCE
from culm_topics.chotki.errors import SourceRetired, SourceTaken, SourceUnknown
from culm_topics.chotki.records import SourceRecord, source_key, split_source_key
from culm_topics.errors import KafkaFailure, RecordError
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import SILENCE_SECONDS, TopicPartitions, read_through

SOURCES_TOPIC: Final = "chotki.sources"
FREE: Final = bytes(16)
"""The run of a source that is not in use."""
_FIRST_GIVEN, _LAST_GIVEN = 0x10000, 0xFFFFF
"""Range of allocated sources: texts of IDs hold no larger ones, and people give small numbers to replicas."""


EDGE_KEY_SIZE: Final = 24
"""Size of an edge's key in its 32-byte id in records. The rest is the start of its run's id."""


def is_of_former_run(edge: bytes, holders: Mapping[int, SourceRecord]) -> bool:
    """Whether this run of an edge is over: its owner had sources, and this run claims none of them."""
    owner, run = edge[:EDGE_KEY_SIZE].hex(), edge[EDGE_KEY_SIZE:]
    runs = [holder.run for holder in holders.values() if holder.owner.startswith(owner)]
    return bool(runs) and not any(former.startswith(run) for former in runs)


def takes_effect(holder: SourceRecord | None, record: SourceRecord) -> bool:
    """Whether a record of a source changes its holder, or is void."""
    if holder is None:
        return True
    if holder.state == "retired":
        return False  # permanent, whatever was on its way
    return holder.run in (FREE, record.run) or record.run == FREE or record.state == "retired"


class SourceTable:
    """The state that follows from the records of `chotki.sources`, taken in order; knows no Kafka."""

    def __init__(self) -> None:
        self.holders: dict[int, SourceRecord] = {}
        self.passed_over = PassedOver(SOURCES_TOPIC)

    def take(self, message: TopicMessage) -> None:
        """Apply the next record."""
        try:
            src, record = split_source_key(message.key), SourceRecord.decode(message.value)
        except RecordError as error:
            self.passed_over.add(message, error)
            return
        if takes_effect(self.holders.get(src), record):
            self.holders[src] = record

    def choose(self, src: int | None, owner: str, seen: Collection[int], *, take_over: bool) -> int:
        """Return the source that this owner may claim: the requested one, its own, or else a free one.

        `seen` are sources in vectors; a source without an owner here belongs to another replica. Raises
        `SourceTaken`, `SourceRetired`.
        """
        if src is None:
            own = sorted(
                source
                for source, holder in self.holders.items()
                if holder.owner == owner and holder.state == "allocated"
            )
            src = own[0] if own else allocate(self.holders.keys() | set(seen))
        holder = self.holders.get(src)
        if src == SYSTEM_SOURCE:
            raise SourceTaken("source 0 is the system's")
        if holder is None:
            if src in seen:
                raise SourceTaken(
                    f"source {src:x} is in use by a replica that this deployment did not allocate it to",
                    hint="take another source, or none: then a free one is allocated",
                )
        elif holder.state == "retired":
            raise SourceRetired(f"source {src:x} was retired")
        elif holder.owner != owner:
            raise SourceTaken(f"source {src:x} belongs to {holder.owner!r}, not to {owner!r}")
        elif holder.run != FREE and not take_over:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(holder.since_ms / 1000))
            raise SourceTaken(
                f"source {src:x} has a writer, of {owner!r}, since {since} UTC",
                hint="wait until it is closed; if it was killed, take the source over",
            )
        return src


def allocate(taken: Collection[int]) -> int:
    """Return a random source that is not taken."""
    draw = random.SystemRandom()
    while (src := draw.randint(_FIRST_GIVEN, _LAST_GIVEN)) in taken:
        continue
    return src


class SourceFollower:
    """Follows `chotki.sources`. Raises `TopicMissing`, `KafkaFailure`. Not for several threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.table = SourceTable()
        self._reader = TopicPartitions(settings, SOURCES_TOPIC)
        try:
            self._reader.assign(self._reader.starts())
            self.catch_up()
        except BaseException:
            self._reader.close()
            raise

    def catch_up(self) -> Mapping[int, SourceRecord]:
        """Read to the present end. Returns the holder of each source."""
        for records in read_through(self._reader, self._reader.ends()):
            for record in records:
                self.table.take(record)
        return self.table.holders

    def poll(self) -> Mapping[int, SourceRecord]:
        """Apply new records. Returns the holder of each source."""
        for record in self._reader.poll(0):
            self.table.take(record)
        return self.table.holders

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def read_sources(settings: KafkaSettings) -> SourceTable:
    """Return the table of all sources at present. Raises `TopicMissing`, `KafkaFailure`."""
    follower = SourceFollower(settings)
    follower.close()
    return follower.table


def retire_source(settings: KafkaSettings, src: int, *, in_use: bool = False) -> SourceRecord:
    """Retire a source; it stays in vectors. With `in_use`, also one that has a writer, which then ends.

    Raises `SourceUnknown`, `SourceRetired`, `SourceTaken`, `TopicMissing`, `KafkaFailure`.
    """
    holder = read_sources(settings).holders.get(src)
    if holder is None:
        raise SourceUnknown(f"source {src:x} was not allocated by this deployment")
    if holder.state == "retired":
        raise SourceRetired(f"source {src:x} was retired already")
    if holder.run != FREE and not in_use:
        raise SourceTaken(
            f"source {src:x} is in use by {holder.owner!r}", hint="stop it first, or retire it all the same"
        )
    retired = SourceRecord(holder.owner, FREE, "retired", time.time_ns() // 1_000_000)
    failures: list[str] = []
    topic = settings.topic(SOURCES_TOPIC)
    producer = clients.producer(settings)
    producer.produce(
        topic,
        retired.encode(),
        source_key(src),
        on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
    )
    if producer.flush(SILENCE_SECONDS) or failures:
        raise KafkaFailure(f"{topic}: {failures[0] if failures else 'nothing was acknowledged in time'}")
    return retired
