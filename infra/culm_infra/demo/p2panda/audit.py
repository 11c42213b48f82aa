"""What peers and topics hold in the end, compared byte for byte with what was signed.

The expected set is every entry that some peer started with or published live. A forked log counts up to
its last common entry: beyond it the branches differ by nature, and `rejected` must hold the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from culm_infra.demo.p2panda.plan import Fork
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer
from culm_topics.readers.whole_topic import read_to_end
from culm_topics.records import (
    RejectedRecord,
    split_log_key,
)

FORK_CODE = "bamboo.fork"

EntryKey = tuple[bytes, int, int]
"""Public key, log id, sequence number."""
Bytes = tuple[bytes, bytes]
"""Entry and operation."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one holder has, measured against what it should have."""

    held: int
    wanted: int
    lost: int
    repeated: int
    differing: int


def compare(wanted: Mapping[EntryKey, Bytes], held: Iterable[tuple[EntryKey, Bytes]], fork: Fork) -> Holding:
    """Count what is missing, twice there, or there with other bytes; a fork's branches are left out."""
    seen: Counter[EntryKey] = Counter()
    differing = 0
    for key, data in held:
        if (key[0], key[1]) == fork.log and key[2] > fork.common:
            continue
        seen[key] += 1
        expected = wanted.get(key)
        differing += expected is not None and expected != data
    return Holding(
        held=len(seen),
        wanted=len(wanted),
        lost=sum(key not in seen for key in wanted),
        repeated=sum(count - 1 for count in seen.values()),
        differing=differing,
    )


def read_logs(kafka: KafkaSettings) -> list[tuple[EntryKey, Bytes]]:
    """Everything that the topic ``logs`` yields to a new consumer, up to its end."""
    with LogConsumer(kafka, stop_at_end=True) as consumer:
        return [
            ((entry.public_key, entry.log_id, entry.seq_num), (entry.entry_bytes, entry.operation_bytes))
            for entry in consumer
        ]


@dataclass(frozen=True, slots=True)
class Refusals:
    """What is on ``rejected``: records by code, and the logs that are proven to be forked."""

    by_code: dict[str, int]
    forked: set[LogKey]


def read_refusals(kafka: KafkaSettings) -> Refusals:
    """Read the topic ``rejected`` to its end; a record without both branches is no proof of a fork."""
    by_code: Counter[str] = Counter()
    forked: set[LogKey] = set()
    for message in read_to_end(kafka, "rejected"):
        record = RejectedRecord.decode(message.value)
        by_code[record.code] += 1
        if record.code == FORK_CODE and record.entry and record.first and message.key:
            forked.add(split_log_key(message.key))
    return Refusals(dict(by_code), forked)
