"""What the job writes, and in which order: nothing of a stage before everything of the stage before."""

from enum import IntEnum, StrEnum
from typing import NamedTuple


class Stage(IntEnum):
    """A reader that has a stage has all before it."""

    FIELDS = 0
    """Merged fields, and what was refused."""
    VECTORS = 1
    """The vectors of blocks, in the partitions of their fields; tombstones of pieces that no field names."""
    MARKS = 2
    """The epoch is complete, in each partition."""
    TOLD = 3
    """The global vector, for operators."""


class Topic(StrEnum):
    """Where a record goes."""

    STATE = "chotki.state"
    VECTORS = "chotki.vectors"
    REJECTED = "rejected"


class OutputRecord(NamedTuple):
    """One record; `partition` is None where Kafka's partitioner says it, `value` for a tombstone."""

    stage: Stage
    topic: Topic
    key: bytes
    value: bytes | None
    partition: int | None
