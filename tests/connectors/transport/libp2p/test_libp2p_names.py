"""Peer ids, multiaddrs and the encodings below them; multistream-select in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.connection import encode_identify
from culm_connectors.transport.libp2p.errors import MultiaddrError, NegotiationError, WireError
from culm_connectors.transport.libp2p.host_key import HostKey, KeyKind, format_peer_id, parse_peer_id
from culm_connectors.transport.libp2p.multiaddr import Multiaddr, parse_multiaddr
from culm_connectors.transport.libp2p.multistream import (
    HEADER,
    MAX_LINE_BYTES,
    MAX_PROPOSALS,
    Listening,
    Proposing,
    encode_line,
)
from culm_models.keys import KeyPair
from culm_models.varint import write_varint

# The node's own vector: this private key has this peer id.
PRIVATE_KEY = bytes.fromhex("799faf7a1fa47c54fac705f30d3c4d80c40efb562da19315fabefcc995a228a1")
PEER_ID = "12D3KooWCw68m5CRcV8vD9iuR325oKwJHLYqTYH5mYwD6k2QV4nm"
PUBLIC_KEY = KeyPair.from_private_key(PRIVATE_KEY).public_key
RSA_PEER_ID = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"


def test_the_peer_id_of_a_published_key() -> None:
    assert format_peer_id(PUBLIC_KEY) == PEER_ID
    assert parse_peer_id(PEER_ID) == PUBLIC_KEY


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_peer_ids_come_back_and_sort_as_their_keys(key: bytes, other: bytes) -> None:
    assert parse_peer_id(format_peer_id(key)) == key
    hashes = HostKey.ed25519(key).multihash, HostKey.ed25519(other).multihash
    assert (hashes[0] < hashes[1]) == (key < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "11",
        PEER_ID[:-1],
        PEER_ID + "1",
        "0" + PEER_ID,
        RSA_PEER_ID,
        PEER_ID.replace("W", "l"),
        "z" * 129,
    ],
)
def test_what_is_no_peer_id_of_an_ed25519_key_is_refused(text: str) -> None:
    with pytest.raises(WireError):
        parse_peer_id(text)


def test_an_inline_key_of_another_kind_is_no_p2panda_peer() -> None:
    inline = HostKey(KeyKind.SECP256K1, b"\x02" * 33)
    with pytest.raises(WireError, match="Ed25519"):
        parse_peer_id(inline.peer_id)


@given(st.binary(max_size=60))
def test_base58_comes_back(data: bytes) -> None:
    assert wire.decode_base58(wire.encode_base58(data)) == data


@given(st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_varints_come_back_and_say_when_they_are_cut(number: int, rest: bytes) -> None:
    encoded = write_varint(number)
    assert wire.decode_varint(encoded + rest) == (number, len(encoded))
    for end in range(len(encoded)):
        assert wire.decode_varint(encoded[:end]) is None


@pytest.mark.parametrize("data", [b"\x80\x00", b"\xff" * 9, b"\xff" * 20])
def test_a_varint_is_short_and_in_its_shortest_form(data: bytes) -> None:
    with pytest.raises(WireError):
        wire.decode_varint(data)


@given(st.binary(max_size=80))
def test_no_bytes_make_the_readers_fail_otherwise_than_they_say(data: bytes) -> None:
    for read in (HostKey.decode, wire.decode_der_strings, lambda octets: list(wire.read_fields(octets))):
        try:
            read(data)
        except WireError:
            continue


@given(st.lists(st.binary(max_size=300), max_size=3))
def test_der_strings_come_back(values: list[bytes]) -> None:
    assert wire.decode_der_strings(wire.encode_der_strings(*values)) == values


@pytest.mark.parametrize(
    "text",
    [
        "/ip4/127.0.0.1/udp/2022/quic-v1",
        "/ip6/::1/udp/2022/quic-v1",
        "/dns/node.example/udp/65535/quic-v1",
        f"/ip4/127.0.0.1/udp/2022/quic-v1/p2p/{PEER_ID}",
    ],
)
def test_multiaddrs_come_back(text: str) -> None:
    assert str(parse_multiaddr(text)) == text


def test_a_multiaddr_names_the_key_that_must_be_there() -> None:
    parsed = parse_multiaddr(f"/dns4/localhost/udp/1/quic-v1/p2p/{PEER_ID}")
    assert parsed == Multiaddr(("localhost", 1), PUBLIC_KEY)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("127.0.0.1:2022", "no address"),
        ("", "no address"),
        ("/ip4/127.0.0.1/tcp/2022/quic-v1", "no address"),
        ("/ip4/127.0.0.1/udp/2022/quic", "no address"),
        ("/ip4/127.0.0.1/udp/2022", "no address"),
        ("/ip4/127.0.0.1/udp/2022/quic-v1/p2p", "no address"),
        ("/ip4/127.0.0.1/udp/2022/quic-v1/", "no address"),
        ("/ip4/::1/udp/2022/quic-v1", "no ip4"),
        ("/ip6/127.0.0.1/udp/2022/quic-v1", "no ip6"),
        ("/ip4/localhost/udp/2022/quic-v1", "no ip4"),
        ("/onion3/x/udp/2022/quic-v1", "not supported"),
        ("/dns//udp/2022/quic-v1", "missing"),
        (f"/dns/{'x' * 254}/udp/2022/quic-v1", "too long"),
        ("/ip4/127.0.0.1/udp/65536/quic-v1", "no port"),
        ("/ip4/127.0.0.1/udp/-1/quic-v1", "no port"),
        ("/ip4/127.0.0.1/udp/²/quic-v1", "no port"),
        ("/ip4/127.0.0.1/udp/2022/quic-v1/p2p/nob0dy", "base58"),
        (f"/ip4/127.0.0.1/udp/2022/quic-v1/p2p/{RSA_PEER_ID}", "Ed25519"),
        ("/ip4/127.0.0.1/udp/2022/quic-v1/p2p-circuit/x", "not supported"),
    ],
)
def test_a_wrong_multiaddr_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(MultiaddrError, match=reason):
        parse_multiaddr(text)


def test_the_binary_form_follows_the_table_of_protocols() -> None:
    assert Multiaddr(("1.2.3.4", 0x1234)).encode().hex() == "0401020304" + "9102" + "1234" + "cd03"
    with_peer = Multiaddr(("::1", 1), PUBLIC_KEY).encode()
    assert with_peer.hex() == (
        "29"
        + "00" * 15
        + "01"
        + "9102"
        + "0001"
        + "cd03"
        + "a503"
        + "26"
        + "0024"
        + "08011220"
        + PUBLIC_KEY.hex()
    )


def test_who_we_are_is_told_with_key_protocols_and_addresses() -> None:
    identify = encode_identify(PUBLIC_KEY, [b"/a", b"/b"], ("1.2.3.4", 5), [("::1", 6)])
    size, start = wire.decode_varint(identify) or (0, 0)
    assert len(identify) == start + size
    assert list(wire.read_fields(identify[start:])) == [
        (1, HostKey.ed25519(PUBLIC_KEY).encode()),
        (2, Multiaddr(("::1", 6)).encode()),
        (3, b"/a"),
        (3, b"/b"),
        (4, Multiaddr(("1.2.3.4", 5)).encode()),
        (5, b"/p2p/1.0.0"),
        (6, b"culm"),
    ]


PROTOCOLS = (b"/a/1.0.0", b"/b/1.0.0")
ASKED = encode_line(HEADER) + encode_line(b"/unknown") + encode_line(b"/b/1.0.0")
ANSWERED = encode_line(HEADER) + encode_line(b"na") + encode_line(b"/b/1.0.0")


def test_lines_are_as_published() -> None:
    assert encode_line(HEADER) == b"\x13/multistream/1.0.0\n"
    assert encode_line(b"na") == b"\x03na\n"


@pytest.mark.parametrize("cut", range(len(ASKED + b"rest") + 1))
def test_an_agreement_does_not_depend_on_where_the_bytes_are_cut(cut: int) -> None:
    sent = ASKED + b"rest"
    listening = Listening(PROTOCOLS)
    answers = listening.feed(sent[:cut])
    if cut < len(sent):
        answers += listening.feed(sent[cut:])
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
    "received",
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
def test_a_remote_that_breaks_the_rules_is_given_up(received: bytes) -> None:
    with pytest.raises(NegotiationError):
        Listening(PROTOCOLS).feed(received)


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
