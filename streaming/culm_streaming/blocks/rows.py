"""The packed form of log heights on their way to the state of their blocks.

Rows go through the shuffle by the thousand in one packed record per shard: moving them one by one would cost
more than all other work.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import cbor2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class HeightSource(IntEnum):
    """The source topic of a height, which determines the meaning of a set of heights."""

    LOGS = 0
    """The set is a schema; its name is the schema id in UTF-8."""
    RECEIPTS = 1
    """The set is a peer's holdings; its name is the peer's id."""


ROW = np.dtype(
    [("log", "S40"), ("seq_num", "<u8"), ("next_offset", "<u8"), ("partition", "<u4"), ("name", "<u4")]
)
"""`log` is the log key, which sorts like bytes. `name` is an index into the names that belong to the rows.

Partition and next offset identify the record of the source that contained the height.
"""

Mark = tuple[int, int, int]
"""(source, partition, next offset): all records of the partition before that offset were processed."""


@dataclass(frozen=True, slots=True)
class HeightRows:
    """Heights of one shard: an array of `ROW`, and for each name (source, name of the set).

    `refused` are complete records of `rejected`, (key, value).
    """

    rows: Array
    names: list[tuple[int, bytes]]
    marks: list[Mark] = field(default_factory=list)
    refused: list[tuple[bytes, bytes]] = field(default_factory=list)


def pack_rows(rows: HeightRows) -> tuple[bytes, bytes]:
    """Return (rows, everything else) as bytes."""
    return rows.rows.tobytes(), cbor2.dumps((rows.names, rows.marks, rows.refused))


def unpack_rows(packed: list[tuple[bytes, bytes]]) -> HeightRows:
    """Return the rows of packed records, concatenated in their order; each name once."""
    pieces: list[Array] = []
    index: dict[tuple[int, bytes], int] = {}
    marks: list[Mark] = []
    refused: list[tuple[bytes, bytes]] = []
    for rows_bytes, rest in packed:
        names, some_marks, some_refused = cbor2.loads(rest)
        rows = np.frombuffer(rows_bytes, ROW).copy()
        places = [index.setdefault((source, name), len(index)) for source, name in names]
        rows["name"] = np.array(places, "<u4")[rows["name"]] if places else 0
        pieces.append(rows)
        marks += map(tuple, some_marks)
        refused += map(tuple, some_refused)
    return HeightRows(np.concatenate(pieces) if pieces else np.empty(0, ROW), list(index), marks, refused)
