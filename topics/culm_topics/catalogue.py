"""The catalogue of Kafka topics, as data. To add a topic, add one entry to `CATALOGUE`.

Settings, creation, checking, access rights and docs/topics.md all follow from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Cleanup = Literal["time", "compact", "keep"]
"""What ends a record's life: its age, a newer record of the same key, or nothing."""

Program = Literal["connector", "job", "consumer", "operator"]
"""Who touches a topic: connectors, streaming jobs, consumers of replicated logs, people and dashboards."""

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The largest record batch of any topic, in bytes; producers and consumers are set up for the same."""

DEFAULT_PREFIX = "culm."
DEFAULT_PARTITIONS = 8

_DAY_MS = 24 * 60 * 60 * 1000
# Retention counts from when the broker took the record, not from what a producer's clock said.
_EVERY_TOPIC = {
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    "message.timestamp.type": "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: `name` without the prefix, `config` as Kafka topic properties.

    `partitioned` topics spread over as many partitions as the deployment chooses (`partitions` by default);
    the others are small and always have `partitions`. The number is fixed for the life of a topic that is
    keyed by log: Kafka keeps the order of a log only within a partition.
    """

    name: str
    key: str
    value: str
    cddl: str | None
    partitions: int
    partitioned: bool
    cleanup: Cleanup
    config: Mapping[str, str]
    writers: tuple[Program, ...]
    readers: tuple[Program, ...]
    doc: str


def _time(days: int) -> dict[str, str]:
    return {**_EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": str(days * _DAY_MS)}


def _compact() -> dict[str, str]:
    # Small segments, cleaned early: readers of a compacted topic read all of it when they start.
    return {
        **_EVERY_TOPIC,
        "cleanup.policy": "compact",
        "segment.ms": str(60 * 60 * 1000),
        "min.cleanable.dirty.ratio": "0.2",
    }


def _keep() -> dict[str, str]:
    return {**_EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


CATALOGUE: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="announcements",
        key="peer id (32 bytes)",
        value="the Announce message's own bytes, as received",
        cddl=None,
        partitions=1,
        partitioned=False,
        cleanup="compact",
        config=_compact(),
        writers=("connector",),
        readers=("connector", "job", "operator"),
        doc="Which schemas each peer wants to replicate: its latest announcement.",
    ),
    TopicSpec(
        name="entries",
        key="log key (40 bytes)",
        value="`EntryRecord`",
        cddl="entries.cddl",
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=_time(7),
        writers=("connector",),
        readers=("connector", "job", "operator"),
        doc="Entries as connectors received and checked them, with who brought them; may repeat or jump.",
    ),
    TopicSpec(
        name="logs",
        key="log key (40 bytes)",
        value="`LogRecord`",
        cddl="logs.cddl",
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="keep",
        config=_keep(),
        writers=("job",),
        readers=("consumer", "connector", "operator"),
        doc="The replicated logs: verified entries, each log in sequence order; a retried batch may repeat.",
    ),
    TopicSpec(
        name="rejected",
        key="log key (40 bytes), or empty when no log can be told",
        value="`RejectedRecord`",
        cddl="rejected.cddl",
        partitions=1,
        partitioned=False,
        cleanup="time",
        config=_time(30),
        writers=("connector", "job"),
        readers=("operator",),
        doc="What was refused, why (a stable code), and who brought it; of a fork both entries, as proof.",
    ),
    TopicSpec(
        name="receipts",
        key="peer id (32 bytes)",
        value="`ReceiptRecord`",
        cddl="receipts.cddl",
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=_time(7),
        writers=("connector",),
        readers=("job", "operator"),
        doc="What a peer is known to hold: from its own messages, or because it was delivered.",
    ),
    TopicSpec(
        name="version-vectors",
        key="peer id, then log key (72 bytes)",
        value="`VersionVectorRecord`",
        cddl="version-vectors.cddl",
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=_compact(),
        writers=("job",),
        readers=("connector", "operator"),
        doc="Per peer and log the highest number it holds; under the all-zero peer id, the log heights.",
    ),
    TopicSpec(
        name="blocks",
        key="kind, block bits, block, schema id (see below)",
        value="`BlockSummary`, `BlockHeights`, `BlockProgress`",
        cddl="blocks.cddl",
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=_compact(),
        writers=("job",),
        readers=("connector", "operator"),
        doc="Per schema and block of public keys the log heights, their fingerprints and how new they are.",
    ),
    TopicSpec(
        name="block-vectors",
        key="kind, block bits, block, peer id (see `blocks`)",
        value="`BlockSummary`, `BlockHeights`, `BlockProgress`",
        cddl=None,
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=_compact(),
        writers=("job",),
        readers=("connector", "operator"),
        doc="Per peer and block the version vector of what the peer holds: records as in `blocks`.",
    ),
)


def topic_name(prefix: str, name: str) -> str:
    """The full name of the catalogue's topic `name`."""
    return prefix + spec(name).name


def spec(name: str) -> TopicSpec:
    """The catalogue's entry; `KeyError` when there is none (a programmer's error)."""
    return _BY_NAME[name]


_BY_NAME = {entry.name: entry for entry in CATALOGUE}
assert len(_BY_NAME) == len(CATALOGUE), "a topic is in the catalogue twice"
