"""Sorted heights of many logs as columns: those of a schema on `blocks`, or those of an index."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from culm_topics.records import log_key

LOG_SIZE = 40
ROW_SIZE = 48
_LOG = struct.Struct(">32sQ")

Logs = NDArray[np.bytes_]
U64s = NDArray[np.uint64]


def log_column(logs: Iterable[bytes]) -> Logs:
    """Returns log keys of 40 bytes (public key, log id) as a column."""
    return np.frombuffer(b"".join(logs), f"S{LOG_SIZE}")


@dataclass(frozen=True, slots=True)
class HeightTable:
    """Sorted, distinct log keys of 40 bytes, and the height of each."""

    logs: Logs
    heights: U64s

    @staticmethod
    def from_rows(rows: bytes) -> HeightTable:
        """Build from rows of 48 bytes (log key, height) in any order; the highest height of a log counts."""
        table = np.frombuffer(rows, np.dtype([("log", f"S{LOG_SIZE}"), ("height", ">u8")]))
        logs = np.ascontiguousarray(table["log"])
        heights = table["height"].astype(np.uint64)
        if len(logs) > 1 and not bool(np.all(logs[:-1] < logs[1:])):
            order = np.lexsort((heights, logs))
            logs, heights = logs[order], heights[order]
            last = np.append(logs[:-1] != logs[1:], True)
            logs, heights = logs[last], heights[last]
        return HeightTable(logs, heights)

    @staticmethod
    def from_heights(heights: Iterable[tuple[bytes, int, int]]) -> HeightTable:
        """Build from (public key, log id, height) in any order."""
        return HeightTable.from_rows(
            b"".join(
                log_key(public_key, log_id) + height.to_bytes(8, "big")
                for public_key, log_id, height in heights
            )
        )

    def __len__(self) -> int:
        return len(self.logs)

    def __iter__(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate (public key, log id, height) of every log, in order."""
        logs = _LOG.iter_unpack(self.logs.tobytes())
        for (public_key, log_id), height in zip(logs, self.heights.tolist(), strict=True):
            yield public_key, log_id, height

    def of(self, logs: Logs) -> U64s:
        """Returns the height of each of these logs, 0 if a log is not in the table."""
        if not len(self.logs):
            return np.zeros(len(logs), np.uint64)
        places = np.minimum(np.searchsorted(self.logs, logs), len(self.logs) - 1)
        return np.where(self.logs[places] == logs, self.heights[places], np.uint64(0))

    def merged(self, other: HeightTable) -> HeightTable:
        """Returns the logs of both tables, each at its higher height."""
        if not len(other):
            return self
        if not len(self):
            return other
        logs = np.concatenate((self.logs, other.logs))
        heights = np.concatenate((self.heights, other.heights))
        order = np.lexsort((heights, logs))
        logs, heights = logs[order], heights[order]
        last = np.append(logs[:-1] != logs[1:], True)
        return HeightTable(logs[last], heights[last])

    def blocks(self, block_bits: int) -> NDArray[np.uint16]:
        """Returns the block number of each log: the first bits of its public key."""
        keys = np.frombuffer(self.logs.tobytes(), np.uint8).reshape(-1, LOG_SIZE)
        first = (keys[:, 0].astype(np.uint32) << 8) | keys[:, 1]
        return (first >> (16 - block_bits)).astype(np.uint16)

    def picked(self, chosen: NDArray[np.bool_]) -> HeightTable:
        """Returns the logs that the mask `chosen` selects."""
        return HeightTable(self.logs[chosen], self.heights[chosen])

    def rows(self) -> bytes:
        """Encode as rows of 48 bytes: log key and height."""
        table = np.empty(len(self), np.dtype([("log", f"S{LOG_SIZE}"), ("height", ">u8")]))
        table["log"], table["height"] = self.logs, self.heights
        return table.tobytes()

    def log_keys(self) -> list[bytes]:
        """Returns the log keys as bytes."""
        packed = self.logs.tobytes()
        return [packed[start : start + LOG_SIZE] for start in range(0, len(packed), LOG_SIZE)]


EMPTY = HeightTable.from_rows(b"")
