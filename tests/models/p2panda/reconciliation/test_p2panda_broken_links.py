"""A link that breaks anywhere in a session of mode 1: the next session repairs all."""

from __future__ import annotations

import random

import pytest

from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.settings import PeerSettings
from culm_models.testing.p2panda.node import Node
from tests.support.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda_peers import BOTH, HIGH, LOW, NOW

LOGS = [
    make_log(author(f"broken {number}"), number % 2, 2, schema_id=(SCHEMA, OTHER_SCHEMA)[number % 2])
    for number in range(5)
]
Pair = tuple[Node, Node]


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
        node = Node(peer_id, settings, in_steps=True)
        for log in LOGS:
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


def carry(pair: Pair, now: int, most: int = 1 << 30) -> int:
    """Carry at most so many bytes, a little from each side by turns; returns how many were carried."""
    waiting = {node.peer_id: b"" for node in pair}
    carried = 0
    while True:
        for sender, receiver in (pair, pair[::-1]):
            waiting[sender.peer_id] += sender.take_outgoing(receiver.peer_id, 1_000)
        if not any(waiting.values()):
            return carried
        for sender, receiver in (pair, pair[::-1]):
            data = waiting[sender.peer_id][: min(most - carried, 150)]
            waiting[sender.peer_id] = waiting[sender.peer_id][len(data) :]
            carried += len(data)
            if data:
                receiver.receive(sender.peer_id, data, now)
                receiver.store_staged(1_000, now)
            if carried == most:
                return carried


def heights(node: Node) -> list[tuple[bytes, int, int]]:
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
    assert whole > 500 and heights(pair[0]) == heights(pair[1])
    for most in range(1, whole, step):
        pair = make_pair(seed)
        begin(pair, 0, NOW)
        assert carry(pair, NOW, most) == most
        for node, other in (pair, pair[::-1]):
            node.peer.disconnect(other.peer_id, NOW + 1)
            assert node.peer.staged_count == 0 and not node.peer.sessions(other.peer_id)
        begin(pair, most % 2, NOW + 2)
        carry(pair, NOW + 2)
        assert heights(pair[0]) == heights(pair[1])
        for node, other in (pair, pair[::-1]):
            assert [session.state for session in node.peer.sessions(other.peer_id)] == [SessionState.LIVE]
