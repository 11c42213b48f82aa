"""Records of `sds.in` and `sds.commands` as the step of their shard takes them."""

from enum import IntEnum
from typing import NamedTuple


class Source(IntEnum):
    """The topic that a row comes from; in the order in which rows of the same time are taken."""

    COMMANDS = 0
    IN = 1


TOPICS: dict[Source, str] = {Source.COMMANDS: "sds.commands", Source.IN: "sds.in"}


class Row(NamedTuple):
    """One record as Kafka has it. Rows sort as they are to be taken."""

    timestamp_ms: int
    source: int
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def in_order(rows: list[Row]) -> list[Row]:
    """The rows of one shard and micro-batch as they are to be taken: the same in every run of the batch."""
    # No two rows agree in their first four fields, so keys and values are never compared.
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, int, int, int]:
    return row[:4]
