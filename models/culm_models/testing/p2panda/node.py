"""A driver around one `Peer`, as a connector or a small peer has it: in one shot, or in steps.

In steps, entries wait between `apply_entry` and `stored`, may be lost there by a crash, and storing them
may fail: what a durable queue outside of the process does to a connector.
"""

import random
from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from culm_models.errors import CulmError
from culm_models.p2panda.events import EntryAccepted, Event, LinkFailed
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.codec import encode_entry_message
from culm_models.p2panda.wire.messages import EntryMessage
from culm_models.testing.errors import InvariantError

_CHECKS_REMEMBERED = 20_000


@lru_cache(maxsize=_CHECKS_REMEMBERED)
def _check(entry: bytes, operation: bytes) -> CheckedOperation | CulmError:
    """Checked once for all nodes of all simulations: verifying would take most of their time."""
    try:
        return check_entry(entry, operation)
    except CulmError as error:
        return error.with_traceback(None)


class Node:
    """One peer of a simulation; `store` survives a crash, everything else does not."""

    def __init__(self, peer_id: bytes, settings: PeerSettings, *, in_steps: bool) -> None:
        self.peer_id = peer_id
        self.settings = settings
        self.in_steps = in_steps
        self.store = MemoryLogStore()
        self.peer = Peer(peer_id, self.store, settings)
        self.interests: tuple[str, ...] = ()
        self.staged: deque[tuple[CheckedOperation, bytes]] = deque()
        self.events: list[Event] = []
        self.failed_links: set[bytes] = set()
        self.accepted: set[bytes] = set()

    def start(self, now: int) -> None:
        """Begin with what the store holds; what was staged is lost."""
        self.accepted -= {checked.hash for checked, _ in self.staged}
        self.staged.clear()
        self.failed_links.clear()
        self.peer = Peer(self.peer_id, self.store, self.settings)
        self.peer.announce(self.interests, now)

    def announce(self, schema_ids: Iterable[str], now: int) -> None:
        """Change what the peer is interested in."""
        self.interests = tuple(schema_ids)
        self.peer.announce(self.interests, now)

    def receive(self, remote: bytes, data: bytes, now: int) -> None:
        """Bytes of a remote arrived."""
        if self.in_steps:
            self._receive_in_steps(remote, data, now)
        else:
            self.peer.receive(remote, data, now)
        self.take_events()

    def _receive_in_steps(self, remote: bytes, data: bytes, now: int) -> None:
        try:
            messages = self.peer.decode(remote, data)
        except CulmError:
            return
        for message in messages:
            if not isinstance(message, EntryMessage):
                self.peer.apply(remote, message, now)
                continue
            raw = (message.entry, message.operation)
            checked = _check(*raw)
            if self.peer.apply_entry(remote, message.session_id, checked, raw, now):
                assert not isinstance(checked, CulmError), "a refused entry is never staged"
                self.staged.append((checked, remote))

    def store_staged(self, count: int, now: int) -> None:
        """The first `count` staged entries have become durable."""
        for _ in range(min(count, len(self.staged))):
            checked, source = self.staged.popleft()
            self.store.append([checked])
            self.peer.stored([checked], source, now)

    def fail_to_store(self, rng: random.Random, now: int) -> None:
        """Storing one staged entry fails, and so does all of its log behind it."""
        if not self.staged:
            return
        first = rng.choice(self.staged)[0]
        lost = [
            checked
            for checked, _ in self.staged
            if checked.log == first.log and checked.entry.seq_num >= first.entry.seq_num
        ]
        gone = {checked.hash for checked in lost}
        self.staged = deque(pair for pair in self.staged if pair[0].hash not in gone)
        self.accepted -= gone
        self.peer.discard(lost, now)

    def take_outgoing(self, remote: bytes, max_items: int) -> bytes:
        """At most so many messages and ranges of what waits for a remote, as bytes."""
        parts: list[bytes] = []
        outbox = self.peer.outgoing(remote)
        while outbox.is_partial and not outbox:
            outbox = self.peer.outgoing(remote)
        for _ in range(min(max_items, len(outbox))):
            item = outbox.popleft()
            if isinstance(item, EntryRange):
                pairs = self.store.entries(
                    item.public_key, item.log_id, item.first_seq_num, item.last_seq_num
                )
                parts.extend(encode_entry_message(item.session_id, *pair) for pair in pairs)
            else:
                parts.append(item.data)
        return b"".join(parts)

    def take_events(self) -> None:
        """Move what the peer tells to `events`."""
        taken = self.peer.take_events()
        self.events.extend(taken)
        for event in taken:
            if isinstance(event, LinkFailed):
                self.failed_links.add(event.remote)
            elif isinstance(event, EntryAccepted):
                if event.checked.hash in self.accepted:
                    raise InvariantError(f"{self} accepted entry {event.checked.hash.hex()} twice")
                self.accepted.add(event.checked.hash)

    def __repr__(self) -> str:
        return f"node {self.peer_id.hex()[:4]}"
