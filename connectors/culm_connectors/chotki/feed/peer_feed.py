"""The changes that one peer is sent after the diff of its session: packets, and syncs for all else.

Reference 9.2, rules 7 to 9. The feed is asked for the next records once the transport has taken the last
ones, so a peer that reads slowly costs no memory. It lags behind in the tail, and when the tail was dropped,
a sync from a later epoch brings it up to date. A sync is read from the store while it is sent, and cut into
parts like long diffs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from culm_connectors.chotki.errors import StoreIncomplete
from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket
from culm_connectors.chotki.feed.peer_holding import PeerHolding, SendDecision
from culm_connectors.chotki.local_state.snapshot import EpochSnapshot
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.local_store.errors import SnapshotLost
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.sync.diff import Diff, DiffRequest
from culm_models.chotki.sync.progress import Progress

MakeRequest = Callable[[Mapping[int, int], bytes], DiffRequest]
"""Makes the request of a sync, from the vector that the peer holds and the vector of the sync's H."""


class PeerFeed:
    """The feed of one session. Packets of `session` itself, its name in `chotki.packets`, are not sent back.

    `holding` is the state of the peer. Nothing is sent before `begin`.
    """

    def __init__(self, store: ChotkiStore, tail: PacketTail, session: tuple[bytes, int]) -> None:
        self.holding = PeerHolding()
        self._store = store
        self._tail = tail
        self._session = session
        self._request: MakeRequest | None = None
        self._place = tail.start
        self._covered: dict[int, int] = {}
        self._due: int | None = None
        """A sync is due once the packets of the tail before this number are sent."""
        self._snapshot: EpochSnapshot | None = None
        self._diff: Diff | None = None
        self._records: Iterator[bytes] = iter(())
        self._claimed: dict[int, int] = {}

    def begin(self, covered: Mapping[int, int], request: MakeRequest) -> None:
        """Begin to feed the peer. Its session's snapshot contains `chotki.packets` up to `covered`."""
        self._covered = dict(covered)
        self._request = request
        self._place = self._tail.start

    def epoch(self) -> None:
        """Schedule a sync from a new epoch, after the packets that are already in the tail."""
        self._due = self._tail.end

    def progress(self) -> Progress | None:
        """Return the progress of the current sync, or None."""
        return self._diff.progress() if self._diff is not None else None

    def next(self) -> list[bytes] | None:
        """Return the next records, in order. An empty list means call again; None means nothing to send."""
        if self._request is None:
            return None
        if self._diff is not None:
            return self._next_of_sync()
        if self._due is not None and max(self._place, self._tail.start).number >= self._due:
            self._due = None
            if self._begin_sync(self._request):
                return []
        before = self._place
        packets, self._place = self._tail.read(before)
        if not packets and self._place == before:
            return None
        return [packet.packet for packet in packets if self._goes_out(packet)]

    def close(self) -> None:
        """Stop the feed at the end of the session."""
        self._request = None
        self._end_sync()

    def _goes_out(self, packet: RelayedPacket) -> bool:
        if packet.offset < self._covered.get(packet.partition, 0):
            return False
        if packet.session == self._session:
            self.holding.raise_to({packet.src: packet.pro})
            return False
        return self.holding.deliver(packet) is SendDecision.SEND

    def _begin_sync(self, request: MakeRequest) -> bool:
        """Begin a sync if the newest epoch has entries that the peer is missing. Returns whether it has."""
        try:
            snapshot = self._store.snapshot()
        except StoreIncomplete:
            return False  # the store is being built; `epoch` is called again when it is done
        self._claimed = self.holding.missing(snapshot.vector)
        if not self._claimed:
            snapshot.release()
            return False
        self._snapshot = snapshot
        try:
            self._diff = Diff(snapshot, request(self.holding.vector, write_vector(self._claimed)))
        except SnapshotLost:
            self._begin_again()
            return True
        self._records = self._diff.records()
        return True

    def _next_of_sync(self) -> list[bytes]:
        try:
            record = next(self._records, None)
        except SnapshotLost:
            self._begin_again()
            return []
        if record is None:
            self._end_sync()
            # Packets that build on the sync may follow.
            self.holding.raise_to(self._claimed)
            return []
        return [record] if record else []

    def _begin_again(self) -> None:
        """Restart a sync with the same T. Its snapshot was lost because the store's file had to grow."""
        self._end_sync()
        self._due = self._place.number

    def _end_sync(self) -> None:
        self._diff = None
        self._records = iter(())
        if self._snapshot is not None:
            self._snapshot.release()
            self._snapshot = None
