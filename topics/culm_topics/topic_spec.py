"""The classes that describe a topic and a job, and the topic properties of each clean-up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Cleanup = Literal["time", "compact", "keep"]
"""The end of a record's life: by its age, by a newer record with the same key, or never."""

Program = Literal["connector", "job", "consumer", "operator"]
"""A reader or writer of a topic: connectors, streaming jobs, consumers of the logs, people and dashboards."""

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The largest record batch of any topic, in bytes; producers and consumers use the same limit."""

MAX_COPIES = 32
"""The largest number of copies of a partition that settings may request."""

DEFAULT_PREFIX = "culm."
DEFAULT_PARTITIONS = 8

DAY_MS = 24 * 60 * 60 * 1000
# Retention counts from the time at which the broker stored the record, not from the producer's clock.
EVERY_TOPIC = {
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    "message.timestamp.type": "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: `name` without the prefix, `config` as Kafka topic properties.

    `partitioned` topics have as many partitions as the deployment chooses (`partitions` by default); the
    others are small and always have `partitions`. The number is fixed for the life of a topic that is keyed
    by log, because Kafka keeps the order of a log only within a partition. `writers` and `readers` are the
    programs other than jobs; the table of jobs lists the topics of jobs. `records` are the `module:class`
    names of the topic's values. If there are no such classes, `value` describes the values, and `cddl` names
    a file with their rules.
    """

    name: str
    key: str
    partitions: int
    partitioned: bool
    cleanup: Cleanup
    config: Mapping[str, str]
    readers: tuple[Program, ...]
    doc: str
    writers: tuple[Program, ...] = ()
    records: tuple[str, ...] = ()
    value: str = ""
    cddl: str | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job: `name` is also the name of its Spark query and of its checkpoint's folder.

    `reads` and `writes` are topics by their names in the catalogue; `load` is the `module:attribute` that
    runs the job. The jobs of a `group` run together by the group's name. `stateful` jobs have a state store
    of a fixed layout.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    load: str
    doc: str
    group: str = "all"
    stateful: bool = True


def kept_for(days: int) -> dict[str, str]:
    """Return topic properties by which a record expires after `days` days."""
    return {**EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": str(days * DAY_MS)}


def compacted() -> dict[str, str]:
    """Return topic properties by which a newer record replaces the earlier ones with its key."""
    # Small segments are cleaned early: a reader of a compacted topic reads all of it at its start.
    return {
        **EVERY_TOPIC,
        "cleanup.policy": "compact",
        "segment.ms": str(60 * 60 * 1000),
        "min.cleanable.dirty.ratio": "0.2",
    }


def kept() -> dict[str, str]:
    """Return topic properties by which records are kept forever."""
    return {**EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
