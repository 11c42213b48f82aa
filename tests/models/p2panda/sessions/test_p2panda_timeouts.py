"""A session that one side gives up for silence ends on the other side too, and another takes its place.

Words may be late by more than the timeout while the link holds: a connector that still fills its index holds
entries back, one whose Kafka is slow leaves what was said unread.
"""

from __future__ import annotations

import pytest

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.settings import PeerSettings
from culm_models.testing.p2panda.node import P2pandaNode
from tests.support.p2panda.logs import author, make_log
from tests.support.p2panda.peers import BOTH, HIGH, LOW, NOW

LOGS = [
    make_log(author(f"silent {number}"), number % 2, 3, schema_id=BOTH[number % 2]) for number in range(4)
]
TIMEOUT_MS = 1_000
# Failures in a row are waited for ever longer.
PATIENCE_MS = 60_000
CUTS = range(40)


def make_pair(mode: int) -> tuple[P2pandaNode, P2pandaNode]:
    """Two peers with different parts of the logs; the first one begins sessions."""
    pair = []
    for peer_id, cuts in ((LOW, (3, 3, 1, 0)), (HIGH, (1, 0, 3, 3))):
        settings = PeerSettings(
            modes=(mode,),
            announce_offers=True,
            auto_sync=True,
            sync_interval_ms=100,
            session_timeout_ms=TIMEOUT_MS,
            payload_threshold=1,
            range_division=2,
        )
        node = P2pandaNode(peer_id, settings, in_steps=False)
        for log, cut in zip(LOGS, cuts, strict=True):
            node.store.append(log[:cut])
        node.announce(BOTH, NOW)
        pair.append(node)
    first, second = pair
    first.peer.connect(HIGH, NOW, dialled=True)
    second.peer.connect(LOW, NOW, dialled=False)
    return first, second


def carry(
    pair: tuple[P2pandaNode, P2pandaNode], now: int, limit: int = 1 << 30, *, withheld: bytes | None = None
) -> bytes:
    """Carry at most so many words, by turns, up to silence; returns what one side said and is withheld."""
    kept = b""
    while True:
        silent = True
        for sender, receiver in (pair, pair[::-1]):
            if not limit:
                return kept
            if word := sender.take_outgoing(receiver.peer_id, 1):
                silent = False
                limit -= 1
                if sender.peer_id == withheld:
                    kept += word
                else:
                    receiver.receive(sender.peer_id, word, now)
        if silent:
            return kept


def is_live(peer: Peer, remote: bytes) -> bool:
    return any(session.state is SessionState.LIVE for session in peer.sessions(remote))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("late", [LOW, HIGH])
@pytest.mark.parametrize("waiting_alone", [True, False])
def test_peers_agree_in_the_end_whatever_is_late(mode: int, late: bytes, waiting_alone: bool) -> None:
    given_up = 0
    for words in CUTS:
        first, second = pair = make_pair(mode)
        carry(pair, NOW, words)
        withheld = carry(pair, NOW, withheld=late)
        now = NOW + TIMEOUT_MS
        for node in pair:
            if node.peer_id != late or not waiting_alone:
                node.peer.tick(now)
        given_up += first.peer.counts["p2panda.session.timeout"]
        given_up += second.peer.counts["p2panda.session.timeout"]
        (second if late == LOW else first).receive(late, withheld, now)
        for later in range(now, now + PATIENCE_MS, 100):
            for node in pair:
                node.peer.tick(later)
            carry(pair, later)
        assert first.store.all_log_heights() == second.store.all_log_heights(), words
        assert is_live(first.peer, HIGH), words
        assert is_live(second.peer, LOW), words
    assert given_up, "nothing was late enough"
