"""Merge of many fields of one type at once, with numpy (reference 3.1). Imported only if numpy is installed.

Operands follow one another in a `BytesColumn`. The operands of one field are adjacent, the stored one first.
FIRST, N, Z and V are merged in arrays, in pieces that fit the processor's cache. Fields with a record in an
unusual form or with elements out of order go through `merge` one by one, as all other types do. So the
result is that of `merge`, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from culm_models.chotki.ids import PRO_MASK
from culm_models.chotki.rdx.column import Bytes, BytesColumn, Ints, offsets_of
from culm_models.chotki.rdx.first import FIRST_LETTERS, LOWEST_RAW
from culm_models.chotki.rdx.merge import merge
from culm_models.chotki.zip import PAIR_WIDTHS

Words: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]

PIECE_OPERANDS: Final = 1 << 13
PIECE_BYTES: Final = 1 << 20
"""The limits of a piece in operands and bytes; a piece has at least one whole field."""
SERIES_BYTES_MAX: Final = 1 << 10
"""Longer series are merged one by one: few series have so many records, and arrays of few do not pay."""
RECORD_BYTES_MAX: Final = 24
"""Records of more than three words are compared one by one."""
_PADDING: Final = RECORD_BYTES_MAX + 8
_PAYS_FROM: Final = dict.fromkeys(FIRST_LETTERS, 128) | dict.fromkeys("NZV", 32)
"""The number of fields from which arrays are faster than `merge`."""

# By the length of a pair: where its second integer begins, the mask of each integer in its word, and the
# least integers that are written so. A length that no pair has reads as zeros, and nothing is written so.
_MIDDLE: Final = np.zeros(256, np.int64)
_BIG_MASK: Final = np.zeros(256, np.uint64)
_LIL_MASK: Final = np.zeros(256, np.uint64)
_LEAST_BIG: Final = np.full(256, (1 << 64) - 1, np.uint64)
_LEAST_LIL: Final = np.zeros(256, np.uint64)
_LEAST: Final = {0: 0, 1: 1, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}
for _size, (_big, _lil) in PAIR_WIDTHS.items():
    _MIDDLE[_size] = _big
    _BIG_MASK[_size], _LIL_MASK[_size] = (1 << 8 * _big) - 1, (1 << 8 * _lil) - 1
    # The first is never narrower than the second, and a second of one byte stands behind any first of two.
    _LEAST_BIG[_size] = _LEAST[_big] if _big > _lil else 0
    _LEAST_LIL[_size] = 0 if (_lil, _big > 1) == (1, True) else _LEAST[_lil]
_MIDDLE_BITS: Final = (8 * _MIDDLE).astype(np.uint64)
# By the number of bytes that count, 0 to 8: the first ones of a word in memory, and its uppermost ones.
_LOW_MASK: Final = np.array([(1 << 8 * width) - 1 for width in range(9)], np.uint64)
_HIGH_MASK: Final = np.array(
    [((1 << 64) - 1) ^ ((1 << 8 * (8 - width)) - 1) for width in range(9)], np.uint64
)
_ONE: Final = np.uint64(1)
_LOWEST_RAW: Final = np.uint64(LOWEST_RAW)


class _Piece(NamedTuple):
    """Operands of several fields: ``data`` is padded; ``field`` has the number of each operand's field."""

    data: Bytes
    words: Words
    starts: Ints
    ends: Ints
    field: Ints
    first: Ints


class _Segments(NamedTuple):
    """The parts of the merged values: ranges of a piece's bytes, in the order of their fields.

    Fields of ``left`` have no segments: `merge` merges them.
    """

    field: Ints
    starts: Ints
    lengths: Ints
    left: Flags


def merge_many(letter: str, fields: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Merge the operands of each field, at least one per field; in arrays if that is faster."""
    if len(fields) < _PAYS_FROM.get(letter, len(fields) + 1):
        return [merge(letter, operands) for operands in fields]
    counts = np.fromiter(map(len, fields), np.int64, len(fields))
    operands = BytesColumn.of([operand for operands in fields for operand in operands])
    return list(merge_fields(letter, operands, offsets_of(counts)[:-1]))


def merge_fields(letter: str, operands: BytesColumn, first: Ints) -> BytesColumn:
    """Merge each field; the operands of field i, at least one, begin at ``first[i]``."""
    bounds = np.append(first, len(operands))
    assert bool((np.diff(bounds) > 0).all()), "a field has at least one operand"
    work = _merge_first if letter in FIRST_LETTERS else _SERIES.get(letter)
    merged = [
        _merge_piece(letter, work, operands, bounds[at : to + 1])
        for at, to in _pieces(bounds, operands.offsets)
    ]
    if not merged:
        return BytesColumn.of([])
    lengths = np.concatenate([np.diff(piece.offsets) for piece in merged])
    return BytesColumn(np.concatenate([piece.data for piece in merged]), offsets_of(lengths))


def _pieces(bounds: Ints, offsets: Ints) -> Iterator[tuple[int, int]]:
    """Yield (first field, end of the fields) of each piece."""
    at, fields = 0, len(bounds) - 1
    places = offsets[bounds]
    while at < fields:
        by_count = np.searchsorted(bounds, bounds[at] + PIECE_OPERANDS, "right")
        by_bytes = np.searchsorted(places, places[at] + PIECE_BYTES, "right")
        to = max(min(int(by_count), int(by_bytes)) - 1, at + 1)
        yield at, to
        at = to


def _merge_piece(
    letter: str, work: Callable[[_Piece], _Segments] | None, operands: BytesColumn, bounds: Ints
) -> BytesColumn:
    offsets = operands.offsets[bounds[0] : bounds[-1] + 1]
    data = operands.data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    bounds = bounds - bounds[0]
    fields = len(bounds) - 1
    if work is None:
        return _merge_one_by_one(letter, BytesColumn(data, offsets), bounds, np.arange(fields))
    padded = np.zeros(len(data) + _PADDING, np.uint8)
    padded[: len(data)] = data
    words: Words = np.ndarray((len(padded) - 7,), "<u8", padded.data, strides=(1,))
    field = np.repeat(np.arange(fields), np.diff(bounds))
    segments = work(_Piece(padded, words, offsets[:-1], offsets[1:], field, bounds[:-1]))
    if segments.left.any():
        left = np.flatnonzero(segments.left)
        rest = _merge_one_by_one(letter, BytesColumn(data, offsets), bounds, left)
        return _gathered(np.concatenate([data, rest.data]), _joined(segments, left, rest, len(data)), fields)
    return _gathered(data, segments, fields)


def _merge_one_by_one(letter: str, operands: BytesColumn, bounds: Ints, fields: Ints) -> BytesColumn:
    """Merge these fields only."""
    data = operands.data.tobytes()
    at = operands.offsets.tolist()
    return BytesColumn.of(
        [
            merge(letter, [data[at[operand] : at[operand + 1]] for operand in range(start, end)])
            for start, end in zip(bounds[fields].tolist(), bounds[fields + 1].tolist(), strict=True)
        ]
    )


def _joined(segments: _Segments, left: Ints, rest: BytesColumn, shift: int) -> _Segments:
    """Insert the segments of the fields that were left, whose bytes lie ``shift`` further on."""
    field = np.concatenate([segments.field, left])
    order = np.argsort(field, kind="stable")
    starts = np.concatenate([segments.starts, rest.offsets[:-1] + shift])
    lengths = np.concatenate([segments.lengths, np.diff(rest.offsets)])
    return _Segments(field[order], starts[order], lengths[order], segments.left)


def _gathered(data: Bytes, segments: _Segments, fields: int) -> BytesColumn:
    ends = np.cumsum(segments.lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(segments.starts - (ends - segments.lengths), segments.lengths)
    shift += np.arange(total)
    lengths = np.bincount(segments.field, segments.lengths, fields).astype(np.int64)
    return BytesColumn(data[shift], offsets_of(lengths))


def _read_pairs(piece: _Piece, at: Ints, size: Ints | Bytes) -> tuple[Words, Words]:
    """Read the pairs at ``at`` with these lengths, which are below 256."""
    word = piece.words[at]
    big = word & _BIG_MASK.take(size)
    lil = (word >> _MIDDLE_BITS.take(size)) & _LIL_MASK.take(size)
    long = np.flatnonzero(size > 8)
    if len(long):
        sizes = size[long]
        lil[long] = piece.words[at[long] + _MIDDLE.take(sizes)] & _LIL_MASK.take(sizes)
    return big, lil


def _read_stamps(piece: _Piece, at: Ints, ends: Ints) -> tuple[Words, Words, Ints, Flags]:
    """Return the stamps at ``at``: raw revision, source, end, and whether the stamp is tiny or short."""
    size = piece.data.take(at) - np.uint8(0x30)
    # A digit is at most 9 now; values below 0x30 have wrapped round.
    fits = size <= 9
    start = at + 1
    if not fits.all():
        is_short = size == ord("t") - 0x30
        size = np.where(is_short, piece.data.take(at + 1), size)
        start += is_short
        fits |= is_short
    after = start + size
    fits &= after <= ends
    raw, src = _read_pairs(piece, np.where(fits, start, 0), size)
    return raw, src, after, fits


def _merge_first(piece: _Piece) -> _Segments:
    """Merge F I R S T: the winning operand by magnitude, value bytes, source and place."""
    is_empty = piece.starts == piece.ends
    raw, src, at, fits = _read_stamps(piece, np.where(is_empty, 0, piece.starts), piece.ends)
    fields = len(piece.first)
    left = np.zeros(fields, np.bool_)
    left[piece.field[~fits | is_empty | (raw == _LOWEST_RAW)]] = True
    length = np.where(left[piece.field], 0, piece.ends - at)
    at = np.where(left[piece.field], 0, at)
    # Zeros behind a value shorter than a word do not matter: of equal words the longer value is greater.
    prefix = piece.words[at].byteswap() & _HIGH_MASK[np.minimum(length, 8)]
    alive = np.ones(len(at), np.bool_)
    ranks = ((raw >> _ONE) + (raw & _ONE), prefix, np.minimum(length, 9), src)
    for criterion, rank in enumerate(ranks):
        if criterion == 3:
            # The bytes behind the first word have not been compared.
            long = np.bincount(piece.field[alive & (length > 8)], minlength=fields)
            left |= long > 1
        best = np.maximum.reduceat(np.where(alive, rank, 0), piece.first)
        alive &= rank == best[piece.field]
        if np.count_nonzero(alive) == fields:
            break
    candidates = np.where(alive, np.arange(len(at)), 0)
    winners = np.maximum.reduceat(candidates, piece.first)
    kept = np.flatnonzero(~left)
    winners = winners[kept]
    return _Segments(kept, piece.starts[winners], piece.ends[winners] - piece.starts[winners], left)


class _Entries(NamedTuple):
    """Records of all operands, each about one source: their fields, ranks and positions."""

    field: Ints
    src: Words
    rank: Words
    starts: Ints
    lengths: Ints


def _merge_sources(
    piece: _Piece, read: Callable[[_Piece, Ints, Ints], tuple[Words, Words, Flags]]
) -> _Segments:
    """Merge N, Z and V: the record of the highest rank of each source, ordered by source."""
    left = np.zeros(len(piece.first), np.bool_)
    entries = _taken_apart(piece, read, left)
    if len(entries.field) == 0:
        return _Segments(entries.field, entries.starts, entries.lengths, left)
    order, begins = _by_field_and_source(entries)
    rank, starts, lengths = entries.rank[order], entries.starts[order], entries.lengths[order]
    run = np.cumsum(begins) - 1
    best = np.maximum.reduceat(rank, np.flatnonzero(begins))
    at_best = np.flatnonzero(rank == best[run])
    is_first = np.ones(len(at_best), np.bool_)
    is_first[1:] = run[at_best[1:]] != run[at_best[:-1]]
    chosen = at_best[is_first]
    field = entries.field[order]
    twins = at_best[~is_first]
    if len(twins):
        # Records of one rank with different bytes: which of them is kept depends on the heap's steps.
        ones = chosen[run[twins]]
        left[field[twins[_differ(piece, starts, lengths, ones, twins)]]] = True
        chosen = chosen[~left[field[chosen]]]
    return _Segments(field[chosen], starts[chosen], lengths[chosen], left)


def _differ(piece: _Piece, starts: Ints, lengths: Ints, ones: Ints, others: Ints) -> Flags:
    """Whether the bytes of two records differ, pair by pair."""
    differ: Flags = lengths[ones] != lengths[others]
    for word in range(0, RECORD_BYTES_MAX, 8):
        mask = _LOW_MASK[np.clip(lengths[ones] - word, 0, 8)]
        differ |= ((piece.words[starts[ones] + word] ^ piece.words[starts[others] + word]) & mask) != 0
    return differ


def _taken_apart(
    piece: _Piece, read: Callable[[_Piece, Ints, Ints], tuple[Words, Words, Flags]], left: Flags
) -> _Entries:
    """Read the entries of all operands, record by record; a misfit marks its field in ``left``."""
    rounds: list[_Entries] = []
    sizes = piece.ends - piece.starts
    left[piece.field[sizes > SERIES_BYTES_MAX]] = True
    live = np.flatnonzero((sizes > 0) & ~left[piece.field])
    at = piece.starts[live]
    before: Words | None = None
    while len(live):
        length = piece.data.take(at + 1).astype(np.int64) + 2
        ends = at + length
        src, rank, fits = read(piece, at, np.minimum(ends, piece.ends[live]))
        fits &= (ends <= piece.ends[live]) & (length <= RECORD_BYTES_MAX)
        if before is not None:
            fits &= src > before
        field = piece.field[live]
        if not fits.all():
            left[field[~fits]] = True
        rounds.append(_Entries(field, src, rank, at, length))
        more = fits & (ends < piece.ends[live])
        live, at, before = live[more], ends[more], src[more]
    if not rounds:
        nothing = np.zeros(0, np.int64)
        return _Entries(nothing, nothing.astype(np.uint64), nothing.astype(np.uint64), nothing, nothing)
    field = np.concatenate([taken.field for taken in rounds])
    entries = _Entries(
        field,
        np.concatenate([taken.src for taken in rounds]),
        np.concatenate([taken.rank for taken in rounds]),
        np.concatenate([taken.starts for taken in rounds]),
        np.concatenate([taken.lengths for taken in rounds]),
    )
    if not left.any():
        return entries
    kept = ~left[field]
    _, src, rank, starts, lengths = entries
    return _Entries(field[kept], src[kept], rank[kept], starts[kept], lengths[kept])


def _by_field_and_source(entries: _Entries) -> tuple[Ints, Flags]:
    """Return the order of the entries by field and source, and flags where a field or source begins."""
    field, src = entries.field.astype(np.uint64), entries.src
    begins = np.ones(len(field), np.bool_)
    bits = int(src.max()).bit_length()
    if int(field.max()).bit_length() + bits <= 64:
        # Sorting both in one word is several times as fast.
        both = (field << np.uint64(bits % 64)) | src
        order = np.argsort(both)
        ordered = both[order]
        begins[1:] = ordered[1:] != ordered[:-1]
    else:
        order = np.lexsort((src, field))
        begins[1:] = (field[order[1:]] != field[order[:-1]]) | (src[order[1:]] != src[order[:-1]])
    return order, begins


def _read_counter(letter: str) -> Callable[[_Piece], _Segments]:
    code = ord(letter.lower())

    def read(piece: _Piece, at: Ints, ends: Ints) -> tuple[Words, Words, Flags]:
        raw, src, _, fits = _read_stamps(piece, at + 2, ends)
        return src, raw, fits & (piece.data[at] == code) & (at + 2 < ends)

    return lambda piece: _merge_sources(piece, read)


def _read_entry(piece: _Piece, at: Ints, ends: Ints) -> tuple[Words, Words, Flags]:
    size = piece.data.take(at + 1)
    src, pro = _read_pairs(piece, at + 2, size)
    # A merge rewrites vectors: only entries that would be written the same way may be copied.
    fits = (piece.data.take(at) == ord("v")) & (pro <= PRO_MASK)
    fits &= (src >= _LEAST_BIG.take(size)) & (pro >= _LEAST_LIL.take(size))
    return src, pro, fits


_SERIES: Final[dict[str, Callable[[_Piece], _Segments]]] = {
    "N": _read_counter("T"),
    "Z": _read_counter("I"),
    "V": lambda piece: _merge_sources(piece, _read_entry),
}
