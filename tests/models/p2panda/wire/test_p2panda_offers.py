"""Offers: what an announcement tells beyond its schemas, and that nobody takes it for a schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.p2panda.events import Announced
from culm_models.p2panda.operations.identifiers import SchemaId, normalise
from culm_models.p2panda.wire import codec, messages
from culm_models.p2panda.wire.messages import Announce, Offer, SyncRequest
from tests.support.logs import OTHER_SCHEMA, SCHEMA
from tests.support.p2panda_peers import BOTH, HIGH, LOW, NOW, connect, connect_to, make_peer, said

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
    told, offer = messages.split_offer(announced(announce_offers=True, lifts=("add128",), compact_form=False))
    assert told == BOTH
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
