"""What is said of a topic and of a job, and the topic properties that a clean-up asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Cleanup = Literal["time", "compact", "keep"]
"""What ends a record's life: its age, a newer record of the same key, or nothing."""

Program = Literal["connector", "job", "consumer", "operator"]
"""Who reads or writes a topic: connectors, streaming jobs, consumers of the logs, people and dashboards."""

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The largest record batch of any topic, in bytes; producers and consumers are set up for the same."""

MAX_COPIES = 32
"""The most copies of a partition that settings may ask for."""

DEFAULT_PREFIX = "culm."
DEFAULT_PARTITIONS = 8

DAY_MS = 24 * 60 * 60 * 1000
# Retention counts from when the broker took the record, not from what a producer's clock said.
EVERY_TOPIC = {
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    "message.timestamp.type": "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: `name` without the prefix, `config` as Kafka topic properties.

    `partitioned` topics spread over as many partitions as the deployment chooses (`partitions` by default);
    the others are small and always have `partitions`. The number is fixed for the life of a topic that is
    keyed by log: Kafka keeps the order of a log only within a partition. `writers` and `readers` are programs
    beside the jobs, whose topics stand in the table of jobs. `records` are the `module:class` of its values;
    where they are none, `value` says what they are, and `cddl` names a file that has their shape.
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
    """One job: `name` is also that of its Spark query and of its checkpoint's folder.

    `reads` and `writes` are topics by their names in the catalogue, `load` is the `module:attribute` that
    runs it. Jobs of a `group` run together by its name. `stateful` jobs have a state store of a fixed layout.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    load: str
    doc: str
    group: str = "all"
    stateful: bool = True


def kept_for(days: int) -> dict[str, str]:
    """Topic properties: a record ends after so many days."""
    return {**EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": str(days * DAY_MS)}


def compacted() -> dict[str, str]:
    """Topic properties: a record ends when a newer one of its key has come."""
    # Small segments, cleaned early: readers of a compacted topic read all of it when they start.
    return {
        **EVERY_TOPIC,
        "cleanup.policy": "compact",
        "segment.ms": str(60 * 60 * 1000),
        "min.cleanable.dirty.ratio": "0.2",
    }


def kept() -> dict[str, str]:
    """Topic properties: nothing ends a record."""
    return {**EVERY_TOPIC, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
