"""The output of the job and its order: a stage is written after all records of the previous stage."""

from enum import IntEnum, StrEnum
from typing import NamedTuple


class OutputStage(IntEnum):
    """A stage of the output; a reader that has a record of a stage has all records of earlier stages."""

    FIELDS = 0
    """Merged fields, and refused data."""
    VECTORS = 1
    """The vectors of blocks, in the partitions of their fields; tombstones of pieces that no field names."""
    MARKS = 2
    """The marks of the complete epoch, in each partition."""
    TOLD = 3
    """The global vector, for operators."""


class OutputTopic(StrEnum):
    """The topic of a record."""

    STATE = "chotki.state"
    VECTORS = "chotki.vectors"
    REJECTED = "rejected"


class StagedRecord(NamedTuple):
    """One record; `partition` is None if Kafka's partitioner decides, `value` is None for a tombstone."""

    stage: OutputStage
    topic: OutputTopic
    key: bytes
    value: bytes | None
    partition: int | None
