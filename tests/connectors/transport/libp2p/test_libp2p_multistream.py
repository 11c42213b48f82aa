"""multistream-select: every way to cut it into pieces, and what a remote may not say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.transport.libp2p.errors import NegotiationError
from culm_connectors.transport.libp2p.multistream import (
    HEADER,
    MAX_LINE_BYTES,
    MAX_PROPOSALS,
    Listening,
    Proposing,
    encode_line,
)
from culm_models.varint import write_varint

PROTOCOLS = (b"/a/1.0.0", b"/b/1.0.0")
ASKED = encode_line(HEADER) + encode_line(b"/unknown") + encode_line(b"/b/1.0.0")
ANSWERED = encode_line(HEADER) + encode_line(b"na") + encode_line(b"/b/1.0.0")


def test_lines_are_as_published() -> None:
    assert encode_line(HEADER) == b"\x13/multistream/1.0.0\n"
    assert encode_line(b"na") == b"\x03na\n"


@pytest.mark.parametrize("cut", range(len(ASKED + b"rest") + 1))
def test_an_agreement_does_not_depend_on_where_the_bytes_are_cut(cut: int) -> None:
    said = ASKED + b"rest"
    listening = Listening(PROTOCOLS)
    answers = listening.feed(said[:cut])
    if cut < len(said):
        answers += listening.feed(said[cut:])
    assert (listening.agreed, answers, listening.rest) == (b"/b/1.0.0", ANSWERED, b"rest")


def test_an_agreement_comes_of_single_bytes_too() -> None:
    listening = Listening(PROTOCOLS)
    answers = b"".join(listening.feed(bytes([byte])) for byte in ASKED)
    assert (listening.agreed, answers) == (b"/b/1.0.0", ANSWERED)


def test_the_list_of_protocols_is_told() -> None:
    listening = Listening(PROTOCOLS)
    answer = listening.feed(encode_line(HEADER) + encode_line(b"ls"))
    assert answer == encode_line(HEADER) + encode_line(encode_line(PROTOCOLS[0]) + encode_line(PROTOCOLS[1]))
    assert listening.agreed is None
    assert listening.feed(encode_line(PROTOCOLS[0])) == encode_line(PROTOCOLS[0])


@pytest.mark.parametrize(
    "said",
    [
        encode_line(b"/multistream/2.0.0"),
        b"\x00",
        b"\x05nope?",
        write_varint(MAX_LINE_BYTES + 1),
        b"\xff" * 9,
        encode_line(HEADER) + b"\x80\x00",
        encode_line(HEADER) + encode_line(b"/unknown") * (MAX_PROPOSALS + 1),
        encode_line(HEADER) + encode_line(b"ls") * (MAX_PROPOSALS + 1),
    ],
)
def test_a_remote_that_breaks_the_rules_is_given_up(said: bytes) -> None:
    with pytest.raises(NegotiationError):
        Listening(PROTOCOLS).feed(said)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_make_a_negotiation_fail_otherwise_than_it_says(pieces: list[bytes]) -> None:
    listening = Listening(PROTOCOLS)
    try:
        for piece in pieces:
            listening.feed(piece)
    except NegotiationError:
        return
    assert listening.agreed is None or listening.agreed in PROTOCOLS


@pytest.mark.parametrize("cut", range(len(ANSWERED)))
def test_our_proposal_is_agreed_on_wherever_the_answer_is_cut(cut: int) -> None:
    answer = encode_line(HEADER) + encode_line(b"/b/1.0.0")
    proposing = Proposing(b"/b/1.0.0")
    assert proposing.opening == answer
    proposing.feed(answer[:cut])
    assert proposing.agreed == (cut >= len(answer))
    proposing.feed(answer[cut:])
    assert proposing.agreed


@pytest.mark.parametrize("answer", [b"na", b"/a/1.0.0", b""])
def test_any_other_answer_is_a_no(answer: bytes) -> None:
    proposing = Proposing(b"/b/1.0.0")
    with pytest.raises(NegotiationError):
        proposing.feed(encode_line(HEADER) + encode_line(answer))
    assert not proposing.agreed
