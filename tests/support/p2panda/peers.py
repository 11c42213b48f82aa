"""Two or more `Peer`s in memory, and what they say to each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from culm_models.p2panda.events import PeerEvent
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Message
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA

LOW = b"\x01" * 32
MIDDLE = b"\x05" * 32
HIGH = b"\x09" * 32
BOTH = tuple(sorted((SCHEMA, OTHER_SCHEMA)))
NOW = 1_700_000_000_000

_MAX_ROUNDS = 1_000


def make_peer(
    peer_id: bytes,
    logs: Iterable[Sequence[CheckedOperation]] = (),
    schema_ids: Sequence[str] = BOTH,
    **settings: Any,
) -> Peer:
    """A peer that holds these logs and announces these schemas."""
    store = MemoryLogStore()
    for log in logs:
        store.append(log)
    peer = Peer(peer_id, store, PeerSettings(**settings))
    peer.announce(schema_ids, NOW)
    return peer


def connect(dialler: Peer, listener: Peer, now: int = NOW) -> None:
    """Bring a link up and let both hear the other's announcement."""
    dialler.connect(listener.peer_id, now, dialled=True)
    listener.connect(dialler.peer_id, now, dialled=False)
    settle(dialler, listener, now=now)


def connect_to(peer: Peer, remote: bytes) -> None:
    """A link to a remote that the test plays itself; what is sent at once is dropped."""
    peer.connect(remote, NOW, dialled=False)
    peer.take_outgoing(remote)
    peer.take_events()


def settle(*peers: Peer, now: int = NOW) -> None:
    """Carry everything between peers until nothing moves."""
    for _ in range(_MAX_ROUNDS):
        carried = False
        for sender in peers:
            for receiver in peers:
                if receiver.peer_id in sender.remotes:
                    data = sender.take_outgoing(receiver.peer_id)
                    if data:
                        carried = True
                        receiver.receive(sender.peer_id, data, now)
        if not carried:
            return
    raise AssertionError("the peers do not come to an end")


def said(peer: Peer, remote: bytes) -> list[Message]:
    """What a peer wants to say to a remote, as messages."""
    return MessageStream().feed(peer.take_outgoing(remote))


def kinds(events: Iterable[PeerEvent]) -> list[str]:
    """The kinds of events, in order."""
    return [event.kind for event in events]


def codes(events: Iterable[PeerEvent]) -> list[str]:
    """The codes of the events that have one."""
    return [code for event in events if (code := getattr(event, "code", None)) is not None]


def heights(peer: Peer) -> list[tuple[bytes, int, int]]:
    """All that a peer holds."""
    assert isinstance(peer.store, MemoryLogStore)
    return peer.store.all_log_heights()


def state_of(peer: Peer, remote: bytes, session_id: int = 0) -> SessionState:
    """How far a session has come; closed if there is none."""
    for session in peer.sessions(remote):
        if session.session_id == session_id:
            return session.state
    return SessionState.CLOSED
