"""Remotes that break set reconciliation in any way: only their session fails, and nothing grows for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.lifts import LIFTS, SIPHASH128
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Message, SyncDone, SyncRequest
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)
from culm_models.testing.p2panda.node import P2pandaNode
from culm_models.testing.p2panda.scenario import SCHEMAS, check_contiguous, written
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    MIDDLE,
    NOW,
    connect,
    connect_to,
    heights,
    make_peer,
    settle,
)

LOGS = written()
KEYS = st.sampled_from([log[0].entry.public_key for log in LOGS[::4]] + [bytes(32), b"\xff" * 32])
BOUNDS = st.tuples(KEYS, st.integers(0, 3), st.sampled_from((0, 0, 0, 1, 2**64 - 1)))
ITEMS = st.tuples(KEYS, st.integers(0, 3), st.integers(0, 12))
FINGERPRINTS = st.one_of(
    st.builds(
        lambda lift, items: lift.fingerprint(items, bytes(lift.salt_bytes)),
        st.sampled_from(LIFTS),
        st.lists(ITEMS, max_size=3),
    ),
    st.just(SIPHASH128.fingerprint([], b"s" * 16)),
    st.binary(max_size=64),
)
ZERO = st.just(0)
RECONCILIATION = st.one_of(
    st.builds(EmptySet, ZERO, st.booleans()),
    st.builds(LowerBound, ZERO, BOUNDS),
    st.builds(Payload, ZERO, ITEMS),
    st.builds(Payload, ZERO, ITEMS, st.booleans(), BOUNDS),
    st.builds(Payload, ZERO, ITEMS, st.booleans()),
    st.builds(EmptyPayload, ZERO, BOUNDS),
    st.builds(Done, ZERO, BOUNDS),
    st.builds(Fingerprint, ZERO, FINGERPRINTS, BOUNDS),
    st.builds(Terminal, ZERO),
)
OTHERS: st.SearchStrategy[Message] = st.one_of(
    st.builds(SyncDone, ZERO, st.booleans()),
    st.builds(SyncRequest, ZERO, st.integers(0, 1), st.sampled_from((SCHEMAS, SCHEMAS[:1]))),
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(RECONCILIATION, RECONCILIATION, RECONCILIATION, OTHERS)
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def victim() -> tuple[Peer, Peer]:
    """A peer, and a friend that it has a live session with."""
    peer = make_peer(LOW, [log[:4] for log in LOGS[:12]], SCHEMAS, payload_threshold=2, range_division=2)
    friend = make_peer(MIDDLE, [log[:2] for log in LOGS[6:]], SCHEMAS)
    connect(friend, peer)
    friend.sync(LOW, 1, SCHEMAS, NOW)
    settle(peer, friend)
    connect_to(peer, HIGH)
    return peer, friend


def check_unharmed(peer: Peer, friend: Peer) -> None:
    """The friend's session is live as before, and every session of the other remote comes to an end."""
    log = LOGS[0]
    peer.publish(log[4].entry_bytes, log[4].payload_bytes, NOW)
    settle(peer, friend)
    assert heights(peer) == heights(friend)
    check_contiguous(peer.store, SCHEMAS)
    peer.take_outgoing(HIGH)
    peer.tick(NOW + 1_000_000)
    assert all(session.state.value == "live" for session in peer.sessions(HIGH))


@PATIENT
@given(st.booleans(), st.lists(MESSAGES, max_size=40))
def test_any_messages_in_any_order(asks: bool, messages: list[Message]) -> None:
    peer, friend = victim()
    if asks:
        peer.sync(HIGH, 1, SCHEMAS, NOW)
    else:
        peer.receive(HIGH, codec.encode(SyncRequest(0, 1, SCHEMAS)), NOW)
    sent = 0
    for message in messages:
        peer.receive(HIGH, codec.encode(message), NOW)
        sent += len(peer.take_outgoing(HIGH))
    assert sent < 1 << 20
    check_unharmed(peer, friend)


def damaged(data: st.DataObject, messages: list[Message]) -> list[Message]:
    """The messages of an honest remote, one of them left out, said twice, moved, or replaced."""
    if not messages:
        return messages
    at = data.draw(st.integers(0, len(messages) - 1))
    match data.draw(st.integers(0, 4)):
        case 0:
            return messages[:at] + messages[at + 1 :]
        case 1:
            return messages[: at + 1] + messages[at:]
        case 2:
            to = data.draw(st.integers(0, len(messages) - 1))
            rest = messages[:at] + messages[at + 1 :]
            return [*rest[:to], messages[at], *rest[to:]]
        case 3:
            return [*messages[:at], data.draw(MESSAGES), *messages[at + 1 :]]
        case _:
            return messages


@PATIENT
@given(st.data(), st.booleans(), st.sampled_from(("even", "upstream")))
def test_an_honest_conversation_that_is_damaged(data: st.DataObject, asks: bool, rule: Any) -> None:
    peer, friend = victim()
    remote = make_peer(HIGH, [log[:5] for log in LOGS[5:]], SCHEMAS, rule=rule, range_division=2)
    connect_to(remote, LOW)
    first, second = (peer, HIGH) if asks else (remote, LOW)
    first.sync(second, 1, SCHEMAS, NOW)
    for _ in range(30):
        remote.receive(LOW, peer.take_outgoing(HIGH), NOW)
        messages = MessageStream().feed(remote.take_outgoing(LOW))
        if not messages:
            break
        spoilt = damaged(data, messages)
        peer.receive(HIGH, b"".join(map(codec.encode, spoilt)), NOW)
    check_unharmed(peer, friend)


# A link that breaks anywhere in a session of mode 1: the next session repairs all.


BROKEN_LOGS = [
    make_log(author(f"broken {number}"), number % 2, 2, schema_id=(SCHEMA, OTHER_SCHEMA)[number % 2])
    for number in range(5)
]
Pair = tuple[P2pandaNode, P2pandaNode]


def make_pair(seed: int) -> Pair:
    """Two peers with different parts of the logs, connected; `seed` also says how they speak."""
    rng = random.Random(seed)
    nodes = []
    for peer_id in (LOW, HIGH):
        settings = PeerSettings(
            announce_offers=seed % 2 == 0,
            rule=rng.choice(("even", "upstream")),
            payload_threshold=rng.choice((1, 2)),
            range_division=2,
        )
        node = P2pandaNode(peer_id, settings, in_steps=True)
        for log in BROKEN_LOGS:
            node.store.append(log[: rng.randint(0, len(log))])
        node.announce(BOTH, NOW)
        nodes.append(node)
    return nodes[0], nodes[1]


def begin(pair: Pair, initiator: int, now: int) -> None:
    """A link comes up, and one of the two asks for a session."""
    for node, other, dialled in ((pair[0], pair[1], True), (pair[1], pair[0], False)):
        node.peer.connect(other.peer_id, now, dialled=dialled)
    carry(pair, now)
    assert pair[initiator].peer.sync(pair[1 - initiator].peer_id, 1, BOTH, now) == 0


def carry(pair: Pair, now: int, limit: int = 1 << 30) -> int:
    """Carry at most so many bytes, a little from each side by turns; returns how many were carried."""
    waiting = {node.peer_id: b"" for node in pair}
    carried = 0
    while True:
        for sender, receiver in (pair, pair[::-1]):
            waiting[sender.peer_id] += sender.take_outgoing(receiver.peer_id, 1_000)
        if not any(waiting.values()):
            return carried
        for sender, receiver in (pair, pair[::-1]):
            data = waiting[sender.peer_id][: min(limit - carried, 150)]
            waiting[sender.peer_id] = waiting[sender.peer_id][len(data) :]
            carried += len(data)
            if data:
                receiver.receive(sender.peer_id, data, now)
                receiver.store_staged(1_000, now)
            if carried == limit:
                return carried


def held(node: P2pandaNode) -> list[tuple[bytes, int, int]]:
    """What a peer holds."""
    return node.store.all_log_heights()


@pytest.mark.parametrize(
    ("seed", "step"),
    [pytest.param(0, 1, marks=pytest.mark.soak), (0, 11), (1, 17), (2, 17), (3, 17)],
)
def test_the_next_session_repairs_all_wherever_the_bytes_stop(seed: int, step: int) -> None:
    pair = make_pair(seed)
    begin(pair, 0, NOW)
    whole = carry(pair, NOW)
    assert whole > 500 and held(pair[0]) == held(pair[1])
    for limit in range(1, whole, step):
        pair = make_pair(seed)
        begin(pair, 0, NOW)
        assert carry(pair, NOW, limit) == limit
        for node, other in (pair, pair[::-1]):
            node.peer.disconnect(other.peer_id, NOW + 1)
            assert node.peer.staged_count == 0 and not node.peer.sessions(other.peer_id)
        begin(pair, limit % 2, NOW + 2)
        carry(pair, NOW + 2)
        assert held(pair[0]) == held(pair[1])
        for node, other in (pair, pair[::-1]):
            assert [session.state for session in node.peer.sessions(other.peer_id)] == [SessionState.LIVE]
