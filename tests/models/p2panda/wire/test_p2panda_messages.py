"""The bytes of each message: published vectors, round trips, and what is refused with which code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.errors import CulmError
from culm_models.p2panda.events import Announced
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.operations.identifiers import SchemaId, normalise
from culm_models.p2panda.wire import codec, have_codec, messages
from culm_models.p2panda.wire.messages import (
    Announce,
    EntryMessage,
    Have,
    Message,
    Offer,
    SyncDone,
    SyncRequest,
)
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA
from tests.support.p2panda.peers import BOTH, HIGH, LOW, NOW, connect, connect_to, make_peer, said

PK = bytes.fromhex("2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96")
SYSTEM = "schema_definition_v1"
SYSTEM_HEX = "74736368656d615f646566696e6974696f6e5f7631"

U64 = st.integers(0, 2**64 - 1)
SCHEMA_SETS = st.sets(
    st.sampled_from((SYSTEM, "schema_field_definition_v1", "blob_v1", SCHEMA, OTHER_SCHEMA))
).map(lambda names: tuple(identifiers.normalise(names)))
HEIGHTS = st.lists(
    st.tuples(st.binary(min_size=32, max_size=32), U64, st.integers(1, 2**64 - 1)), max_size=8
).map(lambda rows: tuple(sorted(rows)))


@pytest.mark.parametrize(
    ("message", "compat", "expected"),
    [
        (
            Announce(1, 12345678, (SYSTEM,)),
            "spec",
            "8400011a00bc614e81" + SYSTEM_HEX,
        ),
        (SyncRequest(51, 0, (SYSTEM,)), "spec", "84011833008174736368656d615f646566696e6974696f6e5f7631"),
        (SyncDone(51, False), "spec", "83031833f4"),
        (
            Have(51, ((PK, 0, 1), (PK, 3, 300))),
            "aquadoggo",
            "830a1833818258202f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96"
            "82820001820319012c",
        ),
        (
            Have(51, ((PK, 0, 1), (PK, 3, 300))),
            "spec",
            "830a1833867840" + PK.hex().encode().hex() + "00017840" + PK.hex().encode().hex() + "0319012c",
        ),
        (Have(12, ()), "spec", "830a0c80"),
        (EntryMessage(1, b"\x01\x02", b""), "spec", "84020142010240"),
    ],
)
def test_published_bytes(message: Message, compat: codec.Compat, expected: str) -> None:
    assert codec.encode(message, compat).hex() == expected
    assert codec.decode(bytes.fromhex(expected)) == message


MESSAGES = st.one_of(
    st.builds(Announce, U64, U64, SCHEMA_SETS),
    st.builds(SyncRequest, U64, U64, SCHEMA_SETS),
    st.builds(SyncDone, U64, st.booleans()),
    st.builds(Have, U64, HEIGHTS),
)


@given(MESSAGES, st.sampled_from(("spec", "aquadoggo")))
def test_a_message_is_read_as_it_was_written(message: Message, compat: codec.Compat) -> None:
    data = codec.encode(message, compat)
    decoded = codec.decode(data)
    assert decoded == message
    assert not isinstance(decoded, Announce) or decoded.raw == data


@given(U64, st.binary(max_size=300), st.binary(max_size=70_000))
def test_an_entry_is_read_as_it_was_written(session_id: int, entry: bytes, operation: bytes) -> None:
    message = EntryMessage(session_id, entry, operation)
    data = codec.encode(message)
    assert data == codec.encode_entry_message(session_id, entry, operation)
    assert data == cbor.dumps((2, session_id, entry, operation)), "the short cut writes what CBOR says"
    assert codec.decode(data) == message


def test_schema_ids_are_written_as_a_set_and_read_in_any_order() -> None:
    unsorted = [SCHEMA, "blob_v1", OTHER_SCHEMA, SYSTEM, SCHEMA]
    expected = (SYSTEM, "blob_v1", OTHER_SCHEMA, SCHEMA)
    assert codec.decode(cbor.dumps([1, 0, 0, unsorted])) == SyncRequest(0, 0, expected)
    assert codec.encode(SyncRequest(0, 0, tuple(unsorted))) == codec.encode(SyncRequest(0, 0, expected))


def test_an_announced_name_of_an_unknown_form_is_ignored() -> None:
    names = [SCHEMA, "nonsense", "", "venue_v2", SYSTEM]
    assert codec.decode(cbor.dumps([0, 1, 2, names])) == Announce(1, 2, (SYSTEM, SCHEMA))


HEX = PK.hex()


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([], "malformed"),
        ("text", "malformed"),
        ({0: 1}, "malformed"),
        (["0", 1, 2, []], "malformed"),
        ([True, 1, 2, []], "malformed"),
        ([4, 0, {}], "unknown_type"),
        ([27, 0], "unknown_type"),
        ([-1, 0], "unknown_type"),
        ([0, 1, 2], "item_count"),
        ([0, 1, 2, [], 3], "item_count"),
        ([0, "1", 2, []], "item_kind"),
        ([0, 1, -2, []], "item_range"),
        ([0, 1, True, []], "item_kind"),
        ([0, 1, 1.5, []], "item_kind"),
        ([0, 1, 2, {}], "item_kind"),
        ([0, 1, 2, [b"blob_v1"]], "item_kind"),
        ([1, 0, 0, ["nonsense"]], "p2panda.schema_id"),
        ([1, 0, 0], "item_count"),
        ([1, 0, "log height", []], "item_kind"),
        ([1, -1, 0, []], "item_range"),
        ([2, 0, b"entry"], "item_count"),
        ([2, 0, b"entry", None], "item_kind"),
        ([2, 0, "entry", b""], "item_kind"),
        ([2, 0, b"", b"", b""], "item_count"),
        ([3, 0], "item_count"),
        ([3, 0, 1], "item_kind"),
        ([3, None, True], "item_kind"),
        ([10, 0], "item_count"),
        ([10, 0, {}], "item_kind"),
        ([10, 0, [1, 2, 3]], "item_kind"),
        ([10, 0, [[]]], "item_kind"),
        ([10, 0, [PK, 0, 1]], "item_kind"),
        ([10, 0, [HEX, 0]], "item_count"),
        ([10, 0, [HEX, 0, 1, HEX]], "item_count"),
        ([10, 0, [HEX, 0, 0]], "item_range"),
        ([10, 0, [HEX, -1, 1]], "item_range"),
        ([10, 0, [HEX, "0", 1]], "item_kind"),
        ([10, 0, [HEX, 0, 1, 5, 0, 1]], "item_kind"),
        ([10, 0, [HEX[:-1], 0, 1]], "public_key"),
        ([10, 0, [HEX[:-1] + "g", 0, 1]], "public_key"),
        ([10, 0, [HEX[:-2] + "  ", 0, 1]], "public_key"),
        ([10, 0, [[HEX, 0, 1], [HEX, 0]]], "item_count"),
        ([10, 0, [[HEX, 0, 1], 5]], "item_kind"),
        ([10, 0, [[PK, [[0, 1]]], [PK]]], "item_count"),
        ([10, 0, [[PK, [[0, 1]]], [HEX, [[0, 1]]]]], "item_kind"),
        ([10, 0, [[PK[:-1], [[0, 1]]]]], "public_key"),
        ([10, 0, [[PK, 5]]], "item_kind"),
        ([10, 0, [[PK, [[0]]]]], "item_count"),
        ([10, 0, [[PK, [[0, 0]]]]], "item_range"),
        ([10, 0, [[PK, [["x", 1]]]]], "item_kind"),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(items: Any, code: str) -> None:
    with pytest.raises(CulmError) as caught:
        codec.decode(cbor.dumps(items))
    assert caught.value.code == (code if "." in code else f"p2panda.message.{code}")


@pytest.mark.parametrize("data", ["", "8403", "83031833f4f4", "c0f4", "9f00ff", "83031833f7", "8303fbff"])
def test_what_is_no_strict_cbor_is_malformed(data: str) -> None:
    with pytest.raises(CulmError) as caught:
        codec.decode(bytes.fromhex(data))
    assert caught.value.code == "p2panda.message.malformed"


def test_have_is_read_in_all_three_forms() -> None:
    other = bytes(32)
    expected = Have(1, ((PK, 0, 1), (PK, 3, 300), (other, 2**64 - 1, 2)))
    flat = [HEX, 0, 1, HEX, 3, 300, other.hex(), 2**64 - 1, 2]
    by_log = [[HEX, 0, 1], [HEX, 3, 300], [other.hex(), 2**64 - 1, 2]]
    grouped = [[PK, [[0, 1], [3, 300]]], [other, [[2**64 - 1, 2]]]]
    for form in (flat, by_log, grouped):
        assert codec.decode(cbor.dumps([10, 1, form])) == expected


def test_grouped_log_heights_may_hold_decimal_text() -> None:
    data = cbor.dumps([10, 1, [[PK, [["0", "1"], ["18446744073709551615", 2]]]]])
    assert codec.decode(data) == Have(1, ((PK, 0, 1), (PK, 2**64 - 1, 2)))


@given(HEIGHTS, st.integers(40, 900), st.sampled_from(("spec", "aquadoggo")))
def test_what_is_said_to_fit_a_have_does(
    log_heights: tuple[tuple[bytes, int, int], ...], max_bytes: int, compat: codec.Compat
) -> None:
    size = have_codec.size_within(log_heights, have_codec.capacity(max_bytes))
    if size is not None:
        assert len(codec.encode(Have(2**64 - 1, log_heights), compat)) <= max_bytes
    else:
        assert len(codec.encode(Have(0, log_heights))) > max_bytes - 32


@given(st.binary(max_size=60))
def test_noise_never_raises_anything_but_an_error_of_ours(data: bytes) -> None:
    try:
        message = codec.decode(data)
    except CulmError:
        return
    assert message is not None


# Offers: what an announcement tells beyond its schemas, and that nobody takes it for a schema.


OFFER = Offer(frozenset((0, 1)), frozenset((3, 4)), compact=True, absence=True)
MARKER = "culm_offers_0020" + "0103030018" + 27 * "00"


def test_the_marker_is_what_the_format_says() -> None:
    assert messages.offer_marker(OFFER) == MARKER
    assert messages.offer_marker(Offer(frozenset((7,)), frozenset((15,)), absence=False)) == (
        "culm_offers_0020" + "0180008000" + 27 * "00"
    )


@given(st.frozensets(st.integers(0, 7)), st.frozensets(st.integers(0, 15)), st.booleans(), st.booleans())
def test_an_offer_is_read_as_it_was_written(
    modes: frozenset[int], lifts: frozenset[int], compact: bool, absence: bool
) -> None:
    offer = Offer(modes, lifts, compact=compact, absence=absence)
    assert messages.split_offer((messages.offer_marker(offer),)) == ((), offer)


def test_any_parser_takes_it_for_an_application_schema() -> None:
    parsed = SchemaId.parse(MARKER)
    assert (parsed.name, parsed.is_system, str(parsed)) == ("culm_offers", False, MARKER)
    assert MARKER in normalise((*BOTH, MARKER))


def test_the_schemas_keep_their_order() -> None:
    assert messages.split_offer((SCHEMA, MARKER, OTHER_SCHEMA)) == ((SCHEMA, OTHER_SCHEMA), OFFER)
    assert messages.split_offer((SCHEMA,)) == ((SCHEMA,), None)


@pytest.mark.parametrize("content", ["02" + 31 * "00", 32 * "ff"])
def test_another_format_is_no_schema_and_offers_nothing(content: str) -> None:
    assert messages.split_offer((SCHEMA, "culm_offers_0020" + content)) == ((SCHEMA,), None)


@pytest.mark.parametrize(
    "schema_id", [MARKER + "_0020" + 64 * "f", "culm_offer_0020" + 64 * "0", "culm_offers_v1"]
)
def test_what_only_looks_alike_is_left_alone(schema_id: str) -> None:
    assert messages.split_offer((schema_id,)) == ((schema_id,), None)


def announced(**settings: Any) -> tuple[str, ...]:
    peer = make_peer(LOW, **settings)
    peer.connect(HIGH, NOW, dialled=True)
    (message,) = said(peer, HIGH)
    assert isinstance(message, Announce)
    return message.schema_ids


def test_it_is_told_only_where_that_is_wanted_and_never_to_the_p2panda_node() -> None:
    assert announced() == BOTH
    assert announced(announce_offers=True, compat="aquadoggo") == BOTH
    schema_ids, offer = messages.split_offer(
        announced(announce_offers=True, lifts=("add128",), compact_form=False)
    )
    assert schema_ids == BOTH
    assert offer is not None
    assert (offer.lifts, offer.compact, offer.absence) == (frozenset((3,)), False, True)


def test_the_event_tells_it_apart_from_the_schemas() -> None:
    peer = make_peer(LOW, max_schema_ids=1)
    connect_to(peer, HIGH)
    raw = codec.encode(Announce(1, NOW, normalise((SCHEMA, MARKER))))
    peer.receive(HIGH, raw, NOW)
    assert peer.take_events() == [Announced(HIGH, (SCHEMA,), NOW, raw, OFFER)]
    assert peer.remote_announcement(HIGH) == Announce(1, NOW, (SCHEMA,))


def test_no_session_is_ever_about_it() -> None:
    dialler, listener = (make_peer(peer_id, announce_offers=True, auto_sync=True) for peer_id in (LOW, HIGH))
    connect(dialler, listener)
    assert [session.schema_ids for session in dialler.sessions(HIGH)] == [BOTH]
    listener.receive(LOW, codec.encode(SyncRequest(9, 0, (MARKER,))), NOW)
    assert listener.counts["p2panda.session.not_announced"] == 1
