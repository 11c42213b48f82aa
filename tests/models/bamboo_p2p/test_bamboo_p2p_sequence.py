"""The pieces of a request, counted by arithmetic, are those of the plain list (R30 to R33, R52)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.proofs import MAX_SEQ_NUM, lower_pool, shortest_path, upper_pool
from culm_models.bamboo_p2p.requests.sequence import Piece, Sequence


@st.composite
def requests(draw: st.DrawFn) -> tuple[Sequence, list[Piece]]:
    """A finite request, and its pieces one by one."""
    start = draw(st.integers(1, 60))
    end = draw(st.integers(start, 90))
    offset = draw(st.none() | st.integers(0, 9))
    lower = draw(st.sampled_from(lower_pool(start))) if offset is None else None
    upper = draw(st.integers(end, 130))
    payload_only, sparse = draw(st.booleans()), draw(st.booleans())
    pieces = []
    if lower is not None and not payload_only:
        pieces = [Piece(number, False) for number in reversed(lower_pool(start)) if lower <= number < start]
    for number in shortest_path(start, end) if sparse else range(start, end + 1):
        if not payload_only and (offset is None or number != start):
            pieces.append(Piece(number, False))
        pieces.append(Piece(number, True))
    if not payload_only:
        pieces += [Piece(number, False) for number in upper_pool(end) if end < number <= upper]
    sequence = Sequence(
        start, lower=lower, end=end, upper=upper, offset=offset, payload_only=payload_only, sparse=sparse
    )
    return sequence, pieces


@given(requests())
def test_every_piece_is_where_it_is_counted(request: tuple[Sequence, list[Piece]]) -> None:
    sequence, pieces = request
    assert sequence.size == len(pieces)
    assert [sequence.piece(index) for index in range(sequence.size)] == pieces
    for index, piece in enumerate(pieces):
        find = sequence.payload_index if piece.is_payload else sequence.metadata_index
        assert find(piece.seq_num) == index
    present = set(pieces)
    for number in range(1, 135):
        for is_payload, found in (
            (False, sequence.metadata_index(number)),
            (True, sequence.payload_index(number)),
        ):
            assert (found is not None) == (Piece(number, is_payload) in present)


@given(requests(), st.integers(0, 140), st.integers(0, 140))
def test_runs_of_metadata_name_the_metadata_between_two_places(
    request: tuple[Sequence, list[Piece]], first: int, end: int
) -> None:
    sequence, pieces = request
    end = min(end, len(pieces))
    named = {number for low, high in sequence.metadata_runs(first, end) for number in range(low, high + 1)}
    assert named == {piece.seq_num for piece in pieces[first:end] if not piece.is_payload}


@given(requests(), st.integers(1, 140))
def test_what_is_behind_an_entry_follows_all_its_pieces(
    request: tuple[Sequence, list[Piece]], seq_num: int
) -> None:
    sequence, pieces = request
    seq_num = max(seq_num, sequence.start)
    behind = sequence.behind(seq_num)
    assert all(piece.seq_num <= seq_num for piece in pieces[:behind])
    assert all(piece.seq_num > seq_num for piece in pieces[behind:])


@given(requests(), st.integers(1, 140))
def test_the_first_piece_from_an_entry_on_follows_all_of_earlier_entries(
    request: tuple[Sequence, list[Piece]], seq_num: int
) -> None:
    sequence, pieces = request
    first = sequence.first_from(seq_num)
    assert all(piece.seq_num < seq_num for piece in pieces[:first])
    assert all(piece.seq_num >= seq_num for piece in pieces[first:])


def test_an_open_range_ends_where_numbers_end() -> None:
    sequence = Sequence(5, lower=4, end=None, upper=None, offset=None, payload_only=False, sparse=False)
    assert sequence.is_open
    assert sequence.piece(sequence.size - 1) == Piece(MAX_SEQ_NUM, True)
