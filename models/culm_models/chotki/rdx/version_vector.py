"""Version vectors: the highest known progress of each source (reference 1.4, type V).

A vector is a series of records V, sorted by source, each a pair of source and progress. Stored vectors are
read up to the first unreadable byte; `values.check_value` checks whether bytes are a vector throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from culm_models.chotki.ids import PRO_MASK
from culm_models.chotki.tlv import record, spans
from culm_models.chotki.zip import PAIR_WIDTHS, pack_pair

_NO_PAIR: Final = (0, 0)


def parse_vector(data: bytes) -> dict[int, int]:
    """Return source to greatest progress; a rest that cannot be read is left out."""
    entries: dict[int, int] = {}
    raise_vector(entries, data)
    return entries


def raise_vector(entries: dict[int, int], data: bytes) -> None:
    """Raise ``entries`` to those of an encoded vector."""
    for _, start, end in spans(data):
        middle = start + PAIR_WIDTHS.get(end - start, _NO_PAIR)[0]
        # A pair of an impossible length is read as 0-0, so both of its halves are empty.
        src = int.from_bytes(data[start:middle], "little")
        pro = int.from_bytes(data[middle:end], "little") & PRO_MASK if middle > start else 0
        if entries.get(src, -1) < pro:
            entries[src] = pro


def write_vector(entries: Mapping[int, int]) -> bytes:
    """Encode a vector, sorted by source as a number."""
    return b"".join([record("V", pack_pair(src, entries[src] & PRO_MASK)) for src in sorted(entries)])


def merge_vectors(vectors: Iterable[bytes]) -> bytes:
    """Return the vector of the greatest progress of each source."""
    entries: dict[int, int] = {}
    for vector in vectors:
        raise_vector(entries, vector)
    return write_vector(entries)


def entries_beyond(new: Mapping[int, int], old: Mapping[int, int]) -> dict[int, int]:
    """Return the entries of ``new`` that are beyond those of ``old`` or that ``old`` does not have."""
    return {src: pro for src, pro in new.items() if src not in old or pro > old[src]}
