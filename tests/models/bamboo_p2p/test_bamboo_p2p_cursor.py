"""R65: which piece an end sends, what it passes and on the way to where, and what stops it, each clause."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM, lower_pool, shortest_path, upper_pool
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.sequence import LogPiece, Sequence
from culm_models.bamboo_p2p.settings import BambooSettings, Direction, Policy
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    DataMessage,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    Propose,
    RawPayload,
    Setup,
    Skip,
    SkipReason,
    Switch,
)
from culm_models.conform.bamboo_p2p.codecs import decode_all_data
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, make_log

LENGTH = 5
# Entries of no more than two bytes of payload, none of them empty.
ENTRIES = make_log(LENGTH, payload=lambda seq_num: b"%d" % (10 + seq_num))
RAW = BambooSettings(send_window=0)
LACKS = Skip(SkipReason.UNAVAILABLE)


def held(payloads: Collection[int], entries: Collection[int] = range(1, LENGTH + 1)) -> list[NewEntry]:
    """These entries of the log, with these of their payloads."""
    return [
        entry if seq_num in payloads else NewEntry(entry.entry_bytes)
        for seq_num, entry in enumerate(ENTRIES, 1)
        if seq_num in entries
    ]


def metadata(seq_num: int) -> Metadata:
    """The metadata of an entry."""
    entry = decode_entry(ENTRIES[seq_num - 1].entry_bytes, YAMF)
    return Metadata(False, None, entry.payload_size, entry.payload_hash, entry.signature)


def whole(first: int, last: int) -> list[DataMessage | bytes]:
    """Entries with their payloads, as data messages."""
    messages: list[DataMessage | bytes] = []
    for seq_num in range(first, last + 1):
        messages += [metadata(seq_num), RawPayload(2), ENTRIES[seq_num - 1].payload or b""]
    return messages


def responding(
    entries: list[NewEntry], asked: Propose | None = None, settings: BambooSettings = RAW
) -> HandMade:
    """An end that confirmed the other one's request 0, for all of the log if nothing else is said."""
    made = HandMade(entries, settings)
    return made.control(asked or proposal(0, end=LENGTH))


def proposing(
    entries: list[NewEntry],
    confirmation: Adjust | None = None,
    settings: BambooSettings = RAW,
    setup: Setup | None = None,
    **wants: Any,
) -> HandMade:
    """An end whose own request 0 was confirmed, for all of the log if nothing else is said."""
    made = HandMade(entries, settings, is_proactive=True, setup=setup).control(Grant(4))
    made.propose(RequestedRange(*LOG, **{"start": 1, "lower": 1, "end": LENGTH, **wants}))
    return made.control(confirmation or Adjust(0, Eagerness.ALL, may_skip=True))


def said(made: HandMade) -> list[str]:
    """What an end says as data, in short: `m` metadata, `p` a payload, `n3` a notify, `4` to `6` skips."""
    data = made.heard_data()
    decoded = decode_all_data(data, YAMF, [])
    assert decoded["used"] == len(data)
    return [
        _short(message) for message in decoded["messages"] if message["type"] not in ("switch", "cancelled")
    ]


def _short(message: dict[str, Any]) -> str:
    skips = {"too_small": "4", "too_large": "5", "unavailable": "6"}
    match message["type"]:
        case "metadata":
            return "m"
        case "raw":
            return "p"
        case "notify":
            return f"n{message['pieces']}"
        case "skip":
            return skips[message["reason"]]
    return str(message["type"])


EVERYTHING = ["m", "p"] * LENGTH


# It sends the piece at its cursor if it has it and the other end has not passed it.


@pytest.mark.parametrize("end", [responding, proposing])
def test_what_is_at_the_cursor_and_held_is_sent(end: Callable[[list[NewEntry]], HandMade]) -> None:
    assert said(end(held(range(9)))) == EVERYTHING


def test_what_the_other_end_passed_by_data_is_not_sent() -> None:
    made = responding(held(range(9))).data(Switch(0), *whole(1, 2))
    assert said(made) == ["n4", *["m", "p"] * 3]


def test_what_the_other_end_passed_by_notify_is_not_sent() -> None:
    made = responding(held(range(9)), settings=BambooSettings(policy=Policy(eagerness=Eagerness.NOTIFY)))
    made.data(Switch(0), Notify(4))
    assert said(made)[0] == "n4"


def test_what_the_other_end_skipped_is_not_passed_by_it_and_is_sent() -> None:
    made = responding(held(range(9))).data(Switch(0), metadata(1), LACKS, metadata(2), LACKS)
    assert said(made) == ["n1", "p", "n1", "p", *["m", "p"] * 3]


# What it does not send it passes on its way to a later piece that it can send.


def test_lacking_payloads_are_passed_on_the_way_to_what_can_be_sent() -> None:
    assert said(responding(held([3]), proposal(0, end=3)))[:6] == ["m", "6", "m", "6", "m", "p"]


def test_nothing_is_passed_before_something_later_can_be_sent() -> None:
    made = proposing(held([]), payload_only=True)
    assert said(made) == []
    made.peer.add([ENTRIES[2]])
    assert said(made) == ["6", "6", "p", "6", "6"]


def test_sizes_are_passed_as_too_small_or_too_large_before_they_are_lacking() -> None:
    # Of payloads of two bytes, who wants three finds them too small, who wants one too large.
    for asked, short in ((proposal(0, end=2, min_size=3), "4"), (proposal(0, end=2, max_size=1), "5")):
        assert said(responding(held([2]), asked)) == ["m", short, "m", short]


def test_of_what_is_caught_up_over_one_notify_tells() -> None:
    made = responding(held([], [])).data(Switch(0), *whole(1, LENGTH - 1))
    assert said(made) == []
    made.data(*whole(LENGTH, LENGTH))
    assert said(made) == [f"n{2 * LENGTH}"]


# Or to the end of the sequence, if nothing on the way stops it, and …


def test_the_end_is_gone_to_when_the_other_end_is_there() -> None:
    made = proposing(held([], [])).data(Switch(0), *whole(1, LENGTH - 1), metadata(LENGTH))
    assert said(made) == []
    made.data(RawPayload(2), ENTRIES[-1].payload or b"")
    assert said(made) == [f"n{2 * LENGTH}"]


def test_the_end_is_gone_to_by_who_has_sent_something_and_is_not_behind() -> None:
    assert said(proposing(held([1]))) == ["m", "p", *["m", "6"] * (LENGTH - 1)]
    # Behind the other end, it waits for what may come of it.
    made = proposing(held([1], [1])).data(Switch(0), *whole(1, 1))
    assert said(made) == []


def test_the_end_is_gone_to_by_the_responder_while_nothing_came() -> None:
    asked = proposal(0, end=LENGTH, payload_only=True)
    assert said(responding(held([]), asked)) == ["6"] * LENGTH
    # A proposer does not, nor a responder to whom something came.
    assert said(proposing(held([]), payload_only=True)) == []
    made = responding(held([]), asked, BambooSettings(policy=Policy(eagerness=Eagerness.NOTIFY)))
    made.data(Switch(0), Notify(1))
    assert said(made) == []


def test_an_open_range_has_no_end_to_go_to() -> None:
    made = responding(held([]), proposal(0, payload_only=True))
    assert said(made) == []


# What stops it.


def test_metadata_that_is_lacking_stops() -> None:
    made = responding(held(range(9), [1, 2, 4, 5]))
    assert said(made) == ["m", "p"] * 2
    made.peer.add([ENTRIES[2]])
    assert said(made) == ["m", "p"] * 3


def test_a_mandatory_payload_that_is_lacking_stops() -> None:
    made = responding(held([1, 3]), proposal(0, end=3, mandatory=True))
    assert said(made) == ["m", "p", "m"]
    made.control(Adjust(0, may_skip=True))
    assert said(made) == ["6", "m", "p"]


def test_a_payload_that_the_other_end_is_just_sending_stops() -> None:
    made = responding(held([2])).data(Switch(0), metadata(1), RawPayload(1), b"1")
    assert said(made) == []
    # It is the other end's to finish.
    made.data(RawPayload(1), b"1")
    assert said(made)[:3] == ["n2", "m", "p"]


def test_a_payload_of_which_there_is_an_unverified_part_stops() -> None:
    """It may become whole: 6 would say that it cannot be had."""
    part = NewEntry(ENTRIES[0].entry_bytes, None, ((0, b"1"),))
    made = responding([part, *held(range(9), [2, 3, 4, 5])])
    assert said(made) == ["m"]
    made.peer.add([ENTRIES[0]])
    assert said(made) == ["p", *["m", "p"] * 4]


def test_a_payload_that_is_on_its_way_from_elsewhere_stops() -> None:
    expected = {(LOG, 1)}
    settings = BambooSettings(send_window=0, expects_payload=lambda log, number: (log, number) in expected)
    made = responding(held([2]), proposal(0, end=2), settings)
    assert said(made) == ["m"]


# Directions are an end's own.


def test_an_end_that_only_pulls_sends_nothing() -> None:
    pulls = BambooSettings(send_window=0, policy=Policy(direction=Direction.PULL))
    made = responding(held(range(9)), settings=pulls)
    assert said(made) == []
    assert said(proposing(held(range(9)), direction=Direction.PULL)) == []
    # It goes to the end by catching up, so that a request can be done.
    made.data(Switch(0), *whole(1, LENGTH))
    assert said(made) == [f"n{2 * LENGTH}"]
    assert Cancel(0, CancelCode.DONE) in made.heard()


@pytest.mark.parametrize("direction", [Direction.BOTH, Direction.PUSH])
def test_an_end_that_pushes_sends_what_it_holds(direction: Direction) -> None:
    pushes = BambooSettings(send_window=0, policy=Policy(direction=direction))
    assert said(responding(held(range(9)), settings=pushes)) == EVERYTHING
    assert said(proposing(held(range(9)), direction=direction)) == EVERYTHING


def test_which_way_an_end_goes_is_not_on_the_wire() -> None:
    heard = []
    for direction in Direction:
        made = HandMade(held(range(9)), is_proactive=True).control(Grant(4))
        made.heard()
        made.propose(RequestedRange(*LOG, 1, lower=1, direction=direction))
        heard.append(made.heard())
    assert heard[0] == heard[1] == heard[2]


# The pieces of a request, counted by arithmetic, are those of the plain list (R30 to R33, R52).


@st.composite
def requests(draw: st.DrawFn) -> tuple[Sequence, list[LogPiece]]:
    """A finite request, and its pieces one by one."""
    start = draw(st.integers(1, 60))
    end = draw(st.integers(start, 90))
    offset = draw(st.none() | st.integers(0, 9))
    lower = draw(st.sampled_from(lower_pool(start))) if offset is None else None
    upper = draw(st.integers(end, 130))
    payload_only, sparse = draw(st.booleans()), draw(st.booleans())
    pieces = []
    if lower is not None and not payload_only:
        pieces = [
            LogPiece(number, False) for number in reversed(lower_pool(start)) if lower <= number < start
        ]
    for number in shortest_path(start, end) if sparse else range(start, end + 1):
        if not payload_only and (offset is None or number != start):
            pieces.append(LogPiece(number, False))
        pieces.append(LogPiece(number, True))
    if not payload_only:
        pieces += [LogPiece(number, False) for number in upper_pool(end) if end < number <= upper]
    sequence = Sequence(
        start, lower=lower, end=end, upper=upper, offset=offset, payload_only=payload_only, sparse=sparse
    )
    return sequence, pieces


@given(requests())
def test_every_piece_is_where_it_is_counted(request: tuple[Sequence, list[LogPiece]]) -> None:
    sequence, pieces = request
    assert sequence.size == len(pieces)
    assert [sequence.piece(index) for index in range(sequence.size)] == pieces
    for index, piece in enumerate(pieces):
        find = sequence.payload_index if piece.is_payload else sequence.metadata_index
        assert find(piece.seq_num) == index
    present = set(pieces)
    for number in range(1, 135):
        for is_payload, piece_index in (
            (False, sequence.metadata_index(number)),
            (True, sequence.payload_index(number)),
        ):
            assert (piece_index is not None) == (LogPiece(number, is_payload) in present)


@given(requests(), st.integers(0, 140), st.integers(0, 140))
def test_runs_of_metadata_name_the_metadata_between_two_places(
    request: tuple[Sequence, list[LogPiece]], first: int, end: int
) -> None:
    sequence, pieces = request
    end = min(end, len(pieces))
    named = {number for low, high in sequence.metadata_runs(first, end) for number in range(low, high + 1)}
    assert named == {piece.seq_num for piece in pieces[first:end] if not piece.is_payload}


@given(requests(), st.integers(1, 140))
def test_what_is_behind_an_entry_follows_all_its_pieces(
    request: tuple[Sequence, list[LogPiece]], seq_num: int
) -> None:
    sequence, pieces = request
    seq_num = max(seq_num, sequence.start)
    behind = sequence.behind(seq_num)
    assert all(piece.seq_num <= seq_num for piece in pieces[:behind])
    assert all(piece.seq_num > seq_num for piece in pieces[behind:])


@given(requests(), st.integers(1, 140))
def test_the_first_piece_from_an_entry_on_follows_all_of_earlier_entries(
    request: tuple[Sequence, list[LogPiece]], seq_num: int
) -> None:
    sequence, pieces = request
    first = sequence.first_from(seq_num)
    assert all(piece.seq_num < seq_num for piece in pieces[:first])
    assert all(piece.seq_num >= seq_num for piece in pieces[first:])


def test_an_open_range_ends_where_numbers_end() -> None:
    sequence = Sequence(5, lower=4, end=None, upper=None, offset=None, payload_only=False, sparse=False)
    assert sequence.is_open
    assert sequence.piece(sequence.size - 1) == LogPiece(MAX_SEQ_NUM, True)
