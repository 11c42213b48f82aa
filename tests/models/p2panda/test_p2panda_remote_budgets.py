"""What one message, one `Have` or one forked log of a remote may cost, and whose fault a refusal is."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.log_store import LogKey, LogKind
from culm_models.p2panda.errors import MessageTooLargeError
from culm_models.p2panda.events import EntryRejected, Heights
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation import ranges
from culm_models.p2panda.sessions.announcement import AnnouncementSizeError
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    Announce,
    EntryMessage,
    Have,
    LogHeight,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.testing.p2panda.liar import Liar
from culm_models.testing.p2panda.logs import LogWriter
from culm_models.testing.p2panda.scenario import SCHEMAS, check_contiguous, forked, written
from tests.support.hostile.attacks import empty_containers, forked_logs, unknown_heights
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    MIDDLE,
    NOW,
    connect,
    connect_to,
    make_peer,
    said,
    settle,
)

ANNA, MALLORY = author("anna"), author("mallory")


def bring(peer: Peer, *messages: Message) -> None:
    peer.receive(HIGH, b"".join(map(codec.encode, messages)), NOW)


def in_session(*logs: list[CheckedOperation], **settings: Any) -> Peer:
    """A peer that holds these logs, and has a session that the remote asked for."""
    peer = make_peer(LOW, logs, **settings)
    connect_to(peer, HIGH)
    bring(peer, SyncRequest(0, 0, BOTH))
    peer.take_outgoing(HIGH)
    peer.take_events()
    return peer


def entries(log: list[CheckedOperation], session_id: int = 0) -> list[EntryMessage]:
    return [EntryMessage(session_id, operation.entry_bytes, operation.payload_bytes) for operation in log]


@pytest.mark.parametrize("piece", [1 << 10, 1 << 16, 1 << 22])
def test_expensive_cbor_is_refused_before_any_of_it_is_decoded(piece: int) -> None:
    attack = empty_containers(MAX_MESSAGE_BYTES - 8)
    stream = MessageStream()
    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLargeError):
            for start in range(0, len(attack), piece):
                stream.feed(attack[start : start + piece])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


@pytest.mark.parametrize("compat", ["spec", "aquadoggo"])
def test_the_largest_have_that_fits_a_message_is_taken(compat: codec.Compat) -> None:
    logs = MAX_MESSAGE_BYTES // 76
    have = Have(0, tuple((key, log_id % 2**16, 2**20) for key, log_id, _ in unknown_heights(logs)))
    stream = MessageStream()
    (message,) = stream.feed(codec.encode(have, compat))
    assert isinstance(message, Have)
    assert len(message.log_heights) == logs
    assert stream.items_taken > 3 * logs, "what it cost is counted"


def test_heights_of_logs_that_are_not_held_are_not_told() -> None:
    log = make_log(ANNA, 0, 2)
    peer = in_session(log)
    bring(peer, Have(0, ((ANNA.public_key, 0, 1), *unknown_heights(1_000))))
    assert [event for event in peer.take_events() if isinstance(event, Heights)] == [
        Heights(HIGH, ((ANNA.public_key, 0, 1),))
    ]


def test_a_repeated_have_does_not_read_the_store() -> None:
    peer = make_peer(LOW, [make_log(ANNA, 0, 2)])
    connect_to(peer, HIGH)
    bring(peer, Announce(1, 1, BOTH))
    assert peer.sync(HIGH, 0, BOTH, NOW) == 0
    bring(peer, Have(0, ()))
    peer.take_outgoing(HIGH)
    peer.store = peer._state.store = Unreadable()
    bring(peer, Have(0, ()))
    assert said(peer, HIGH) == []
    assert peer.counts["p2panda.session.have_repeated"] == 1


class Unreadable(MemoryLogStore):
    """A store that must not be asked for all of its logs."""

    def log_heights(self, schema_ids: Iterable[str]) -> list[LogHeight]:
        raise AssertionError("all heights were read")


class Large(MemoryLogStore):
    """A store of many logs that counts how many of them are looked at."""

    looked_at = 0

    def log_heights(self, schema_ids: Iterable[str]) -> Iterator[LogHeight]:  # type: ignore[override]
        for log_height in unknown_heights(10_000):
            self.looked_at += 1
            yield log_height


def test_heights_are_read_no_further_than_a_have_has_room() -> None:
    peer = make_peer(LOW, max_message_bytes=7_000, modes=(0,))
    peer.store = peer._state.store = store = Large()
    connect_to(peer, HIGH)
    bring(peer, Announce(1, 1, BOTH), SyncRequest(0, 0, BOTH))
    assert peer.counts["p2panda.session.have_too_large"] > 0
    assert store.looked_at < 1_000


class Asked(MemoryLogStore):
    """A store that notes how many logs it is asked about at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.at_a_time: list[int] = []

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        self.at_a_time.append(len(logs))
        return super().log_kinds(logs)


@pytest.mark.parametrize("schemas", [BOTH, (*BOTH, "schema_definition_v1")])
def test_what_a_remote_that_holds_nothing_lacks_is_looked_up_a_few_logs_at_a_time(
    monkeypatch: pytest.MonkeyPatch, schemas: tuple[str, ...]
) -> None:
    created = [make_log(author(f"c {number}"), number, 2) for number in range(30)]
    after = [
        [LogWriter(author(f"j {n}"), 8, SCHEMA).append(previous=(created[0][0].hash,))] for n in range(9)
    ]
    system = [make_log(author(f"s {n}"), 9, 1, schema_id="schema_definition_v1") for n in range(9)]
    planned = []
    for at_once in (1_000, 7):
        monkeypatch.setattr(ranges, "SORTED_AT_ONCE", at_once)
        peer = make_peer(LOW, (), schemas)
        peer.store = peer._state.store = store = Asked()
        for log in (*after, *created, *system):
            store.append(log)
        connect_to(peer, HIGH)
        bring(peer, SyncRequest(0, 0, schemas))
        peer.take_outgoing(HIGH)
        bring(peer, Have(0, ()))
        planned.append(said(peer, HIGH))
        assert max(store.at_a_time) <= at_once
    assert planned[0] == planned[1]
    assert sum(isinstance(message, EntryMessage) for message in planned[1]) == 69 + 9 * (len(schemas) > 2)
    assert planned[1][-1] == SyncDone(0, True)


def test_the_branch_that_is_not_held_is_its_authors_fault_to_its_end() -> None:
    ((ours, theirs),) = forked_logs(MALLORY, 1, 12)
    peer = in_session(ours[:4])
    bring(peer, *entries(theirs))
    refused = [event for event in peer.take_events() if isinstance(event, EntryRejected)]
    assert [event.code for event in refused] == [
        *["bamboo.fork"] * 3,
        "bamboo.backlink_mismatch",
        *["bamboo.backlink_unknown"] * 7,
    ]
    assert all(event.blameless for event in refused)


def test_a_gap_and_a_wrong_signature_are_the_remotes_fault() -> None:
    log = make_log(ANNA, 0, 5)
    peer = in_session()
    forged = log[0].entry_bytes[:-1] + bytes((log[0].entry_bytes[-1] ^ 1,))
    bring(peer, *entries(log[3:]), EntryMessage(0, forged, log[0].payload_bytes))
    refused = [event for event in peer.take_events() if isinstance(event, EntryRejected)]
    assert [(event.code, event.blameless) for event in refused] == [
        ("bamboo.backlink_unknown", False),
        ("bamboo.backlink_unknown", False),
        ("bamboo.signature", False),
    ]


def test_what_follows_on_a_discarded_branch_is_not_the_remotes_fault() -> None:
    log = make_log(ANNA, 0, 5)
    peer = in_session()
    first, second = entries(log[:2])
    assert peer.apply_entry(HIGH, first, log[0], NOW)
    peer.discard(log[:1], NOW)
    assert not peer.apply_entry(HIGH, second, log[1], NOW)
    (refused,) = [event for event in peer.take_events() if isinstance(event, EntryRejected)]
    assert (refused.code, refused.blameless) == ("bamboo.backlink_unknown", True)


def test_a_restricted_remote_is_told_of_its_schemas_alone() -> None:
    peer = make_peer(LOW)
    peer.connect(HIGH, NOW, dialled=False, allowed=frozenset((SCHEMA,)))
    (message,) = said(peer, HIGH)
    assert isinstance(message, Announce)
    assert message.schema_ids == (SCHEMA,)
    peer.announce((SCHEMA,), NOW + 1)
    peer.announce(BOTH, NOW + 2)
    assert said(peer, HIGH) == [], "nothing has changed for it"
    bring(peer, Announce(1, 1, BOTH), SyncRequest(0, 0, (OTHER_SCHEMA,)), SyncRequest(1, 0, (SCHEMA,)))
    assert peer.counts["p2panda.session.not_announced"] == 1
    assert [session.session_id for session in peer.sessions(HIGH)] == [1]


def test_an_announcement_of_very_long_schema_ids_is_passed_over() -> None:
    peer = make_peer(LOW, max_announcement_bytes=1_000)
    connect_to(peer, HIGH)
    long = "venue" + "".join(f"_0020{number:064x}" for number in range(20))
    bring(peer, Announce(1, 1, (long,)))
    assert peer.counts[AnnouncementSizeError.code] == 1
    assert peer.remote_announcement(HIGH) is None


# Whatever a remote sends: nothing raises, nothing grows without bound, other remotes are served.


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=10))
def test_noise(pieces: list[bytes]) -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    for piece in pieces:
        peer.receive(HIGH, piece, NOW)
    peer.tick(NOW + 1)


@pytest.mark.parametrize("seed", range(25))
def test_messages_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    peer = make_peer(LOW, schema_ids=SCHEMAS, session_timeout_ms=50, auto_sync=True)
    peer.connect(HIGH, NOW, dialled=rng.random() < 0.5)
    liar = Liar(rng, SCHEMAS, [*forked(), *(checked for log in written() for checked in log)])
    liar.connected()
    friend = make_peer(MIDDLE, schema_ids=SCHEMAS, auto_sync=True)
    connect(friend, peer)
    for step in range(400):
        now = NOW + step
        peer.receive(HIGH, liar.next_bytes(), now)
        if rng.random() < 0.1:
            peer.tick(now)
            peer.take_outgoing(HIGH)
        if not peer.remotes or (peer.counts["link_failed"] and rng.random() < 0.2):
            peer.connect(HIGH, now, dialled=True)
            liar.connected()
        assert len(peer.sessions(HIGH)) <= peer.settings.max_sessions_per_peer
    settle(peer, friend)
    check_contiguous(peer.store, SCHEMAS)
    assert peer.store.log_heights(SCHEMAS) == friend.store.log_heights(SCHEMAS)
    assert peer.staged_count == 0


def test_a_remote_that_breaks_its_stream_harms_only_itself() -> None:
    peer = make_peer(LOW, schema_ids=SCHEMAS)
    for remote in (HIGH, MIDDLE):
        connect_to(peer, remote)
        peer.receive(remote, codec.encode(SyncRequest(0, 0, SCHEMAS)), NOW)
        said(peer, remote)
    peer.receive(HIGH, b"\xff", NOW)
    peer.receive(MIDDLE, codec.encode(Have(0, ())), NOW)
    assert said(peer, MIDDLE) == [SyncDone(0, True)]


def test_a_huge_claim_takes_no_memory() -> None:
    peer = make_peer(LOW, max_message_bytes=10_000)
    connect_to(peer, HIGH)
    peer.receive(HIGH, bytes.fromhex("830a009a00ffffff"), NOW)
    assert peer.counts["p2panda.message.too_large"] == 1
