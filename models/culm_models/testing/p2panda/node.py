"""A driver around one `Peer`, like a connector or a small peer: at once, or in steps.

In steps, entries wait between `apply_entry` and `stored`, may be lost in between by a crash, and may fail to
be stored, as with a durable queue outside of a connector's process.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

from culm_models.errors import CulmError
from culm_models.p2panda.events import EntryAccepted, LinkFailed, PeerEvent
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.codec import encode_entry_message
from culm_models.p2panda.wire.messages import EntryMessage
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import SimulatedNode

_CHECKS_REMEMBERED = 20_000
_LONGEST_STORING_MS = 100


@lru_cache(maxsize=_CHECKS_REMEMBERED)
def _check(entry: bytes, operation: bytes) -> CheckedOperation | CulmError:
    """Check an entry once for all nodes of all simulations: checks would take most of their time."""
    try:
        return check_entry(entry, operation)
    except CulmError as error:
        return error.with_traceback(None)


class P2pandaNode(SimulatedNode):
    """One peer of a simulation; `store` survives a crash, everything else does not."""

    def __init__(
        self, peer_id: bytes, settings: PeerSettings, *, in_steps: bool, rng: random.Random | None = None
    ) -> None:
        super().__init__()
        self._rng = rng or random.Random(peer_id)
        self._next_storing_ms: int | None = None
        self._given_up: set[bytes] = set()
        self.peer_id = peer_id
        self.settings = settings
        self.in_steps = in_steps
        self.store = MemoryLogStore()
        self.peer = Peer(peer_id, self.store, settings)
        self.interests: tuple[str, ...] = ()
        self.staged: deque[tuple[CheckedOperation, bytes]] = deque()
        self.events: list[PeerEvent] = []
        self.failed_links: set[bytes] = set()
        self.accepted: set[bytes] = set()

    def start(self, now: int) -> None:
        """Start with the contents of the store; staged entries are lost."""
        self.accepted -= {checked.hash for checked, _ in self.staged}
        self.staged.clear()
        self._next_storing_ms = None
        self.failed_links.clear()
        self.peer = Peer(self.peer_id, self.store, self.settings)
        self.peer.announce(self.interests, now)

    def announce(self, schema_ids: Iterable[str], now: int) -> None:
        """Change the schemas that the peer announces."""
        self.interests = tuple(schema_ids)
        self.peer.announce(self.interests, now)

    def receive(self, remote: bytes, data: bytes, now: int) -> None:
        """Process bytes from a remote."""
        if self.in_steps:
            self._receive_in_steps(remote, data, now)
        else:
            self.peer.receive(remote, data, now)
        self.take_events()

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Process bytes from a remote, which is named by its id in hex."""
        self.receive(bytes.fromhex(sender), data, now_ms)
        if self.staged and self._next_storing_ms is None:
            self._next_storing_ms = now_ms + self._rng.randint(1, _LONGEST_STORING_MS)

    def tick(self, now_ms: int) -> None:
        """Make some staged entries durable, and let the peer do what is due."""
        self.peer.tick(now_ms)
        self.store_staged(self._rng.choice((1, 3, 100)), now_ms)
        self._next_storing_ms = now_ms + self._rng.randint(1, _LONGEST_STORING_MS) if self.staged else None

    def next_due_ms(self) -> int | None:
        """Return when staged entries become durable; the simulation itself handles the peer's other times."""
        return self._next_storing_ms

    def outgoing(self, now_ms: int) -> Iterator[tuple[str, bytes]]:
        """Yield a few messages for each remote; a link whose stream cannot be read is ended."""
        for remote in self.failed_links - self._given_up:
            self._given_up.add(remote)
            yield remote.hex(), b""
        for remote in list(self.peer.remotes):
            if data := self.take_outgoing(remote, self._rng.choice((1, 2, 50))):
                yield remote.hex(), data

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Connect the peer."""
        self.peer.connect(bytes.fromhex(other), now_ms, dialled=dialled)

    def disconnected(self, other: str, now_ms: int) -> None:
        """Disconnect the peer."""
        self.peer.disconnect(bytes.fromhex(other), now_ms)
        self.failed_links.discard(bytes.fromhex(other))
        self._given_up.discard(bytes.fromhex(other))

    def _receive_in_steps(self, remote: bytes, data: bytes, now: int) -> None:
        try:
            messages = self.peer.decode(remote, data)
        except CulmError:
            return
        for message in messages:
            if not isinstance(message, EntryMessage):
                self.peer.apply(remote, message, now)
                continue
            checked = _check(message.entry, message.operation)
            if self.peer.apply_entry(remote, message, checked, now):
                assert not isinstance(checked, CulmError), "a refused entry is never staged"
                self.staged.append((checked, remote))

    def store_staged(self, count: int, now: int) -> None:
        """Make the first `count` staged entries durable."""
        for _ in range(min(count, len(self.staged))):
            checked, source = self.staged.popleft()
            self.store.append([checked])
            self.peer.stored([checked], source, now)

    def fail_to_store(self, now: int) -> None:
        """Let storing fail for one staged entry and all later ones of its log."""
        if not self.staged:
            return
        first = self._rng.choice(self.staged)[0]
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
        """Return at most `max_items` of the messages and ranges that wait for a remote, as bytes."""
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
        """Move the peer's events to `events`."""
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
