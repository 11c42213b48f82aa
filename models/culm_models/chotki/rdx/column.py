"""Byte strings in one array, as Arrow and Spark provide them. Imported only if numpy is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """Concatenated byte strings, as in Arrow: string i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Bytes
    offsets: Ints

    @classmethod
    def of(cls, values: Sequence[bytes]) -> BytesColumn:
        """Return the column of these strings."""
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        return cls(np.frombuffer(b"".join(values), np.uint8), offsets_of(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        data = self.data.tobytes()
        return (data[start:end] for start, end in pairwise(self.offsets.tolist()))


def offsets_of(lengths: Ints) -> Ints:
    """Return the offsets of strings of these lengths: one more than there are strings, from 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
