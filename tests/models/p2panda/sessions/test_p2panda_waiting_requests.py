"""With `request_wait_ms` a request for what is not announced yet waits, within bounds, until it is."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.remote_requests import MAX_WAITING
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Have, Message, SyncDone, SyncRequest
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import HIGH, LOW, NOW, codes, connect_to, kinds, make_peer, said

LOG = make_log(author("a"), 4, 3)
HAVE = Have(0, ((LOG[0].entry.public_key, 4, 3),))


def waiting_peer(schema_ids: tuple[str, ...] = (), **settings: Any) -> Peer:
    """A peer that announces these schemas so far, and has a remote that the test plays."""
    peer = make_peer(LOW, [LOG], schema_ids, **{"request_wait_ms": 1_000, **settings})
    connect_to(peer, HIGH)
    return peer


def answers(peer: Peer, *messages: Message) -> list[Message]:
    """What a peer answers to these."""
    peer.receive(HIGH, b"".join(map(codec.encode, messages)), NOW)
    return said(peer, HIGH)


def test_it_is_answered_behind_the_announcement_that_names_its_schemas() -> None:
    peer = waiting_peer((OTHER_SCHEMA,))
    assert answers(peer, SyncRequest(0, 0, (SCHEMA,))) == []
    peer.announce([SCHEMA, OTHER_SCHEMA], NOW + 999)
    announced, answer = said(peer, HIGH)
    assert (announced, answer) == (peer.announcement, HAVE)
    assert kinds(peer.take_events()) == ["session_started"]


def test_it_goes_on_waiting_while_only_some_of_its_schemas_are_announced() -> None:
    peer = waiting_peer()
    answers(peer, SyncRequest(0, 0, (SCHEMA, OTHER_SCHEMA)))
    peer.announce([SCHEMA], NOW)
    assert len(said(peer, HIGH)) == 1
    peer.announce([SCHEMA, OTHER_SCHEMA], NOW)
    assert said(peer, HIGH)[1:] == [HAVE]


def test_it_is_refused_when_the_announcement_does_not_come_in_time() -> None:
    peer = waiting_peer()
    answers(peer, SyncRequest(7, 0, (SCHEMA,)))
    peer.tick(NOW + 999)
    assert said(peer, HIGH) == []
    peer.tick(NOW + 1_000)
    assert said(peer, HIGH) == [SyncDone(7, False)]
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]
    peer.announce([SCHEMA], NOW + 1_001)
    assert said(peer, HIGH) == [peer.announcement]


def test_a_remote_takes_it_back_with_sync_done() -> None:
    peer = waiting_peer()
    assert answers(peer, SyncRequest(0, 0, (SCHEMA,)), SyncDone(0, False)) == []
    peer.announce([SCHEMA], NOW)
    assert said(peer, HIGH) == [peer.announcement]
    peer.tick(NOW + 5_000)
    assert said(peer, HIGH) == []


@pytest.mark.parametrize("again", [SyncRequest(0, 0, (OTHER_SCHEMA,)), SyncRequest(1, 0, (SCHEMA,))])
def test_another_one_with_its_id_or_its_schemas_is_a_duplicate(again: SyncRequest) -> None:
    peer = waiting_peer()
    answers(peer, SyncRequest(0, 0, (SCHEMA,)), again)
    assert codes(peer.take_events()) == ["p2panda.session.duplicate"]
    peer.announce([SCHEMA, OTHER_SCHEMA], NOW)
    assert said(peer, HIGH) == [peer.announcement, HAVE]


def test_under_the_id_of_a_session_that_runs_it_is_a_duplicate_and_nothing_is_answered() -> None:
    peer = waiting_peer((SCHEMA,))
    answers(peer, SyncRequest(0, 0, (SCHEMA,)))
    assert answers(peer, SyncRequest(0, 0, (OTHER_SCHEMA,))) == []
    peer.tick(NOW + 1_000)
    assert said(peer, HIGH) == []
    assert len(peer.sessions(HIGH)) == 1


def test_the_end_of_a_session_of_ours_under_its_id_is_not_taken_for_its_end() -> None:
    peer = waiting_peer((OTHER_SCHEMA,))
    answers(peer, SyncRequest(0, 0, (SCHEMA,)))
    assert peer.sync(HIGH, 0, [OTHER_SCHEMA], NOW) == 0
    answers(peer, Have(0, ()), SyncDone(0, False))
    assert peer.sessions(HIGH) == ()


def test_only_so_many_wait_and_the_others_are_ignored() -> None:
    peer = waiting_peer()
    names = [f"name_0020{number:064x}" for number in range(MAX_WAITING + 1)]
    assert answers(peer, *(SyncRequest(number, 0, (name,)) for number, name in enumerate(names))) == []
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]
    peer.announce(names, NOW)
    assert len(said(peer, HIGH)) == 1 + peer.settings.max_sessions_per_peer


def test_only_so_many_schemas_wait() -> None:
    peer = waiting_peer(max_schema_ids=2)
    names = tuple(f"name_0020{number:064x}" for number in range(3))
    answers(peer, SyncRequest(0, 0, names[:2]), SyncRequest(1, 0, names[2:]))
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]


def test_in_mode_1_the_opening_is_there_already_so_that_it_does_not_wait() -> None:
    peer = waiting_peer()
    answers(peer, SyncRequest(0, 1, (SCHEMA,)))
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]
    peer.announce([SCHEMA], NOW)
    assert said(peer, HIGH) == [peer.announcement]


@pytest.mark.parametrize("settings", [{"request_wait_ms": 0}, {"compat": "aquadoggo"}])
def test_it_is_ignored_at_once_as_the_specification_says_where_nothing_waits(settings: Any) -> None:
    peer = waiting_peer(**settings)
    assert answers(peer, SyncRequest(0, 0, (SCHEMA,))) == []
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]
    peer.announce([SCHEMA], NOW)
    assert said(peer, HIGH) == [peer.announcement]
