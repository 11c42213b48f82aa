"""The receiving half of a session: the peer's diff, and those that it forwards, from H over D's to V.

Reference 4.2. Nothing takes effect before V; then all of it does, and the replica forwards what it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import SyncExpired
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import Handshake, read_handshake
from culm_models.chotki.packets.packet import Packet
from culm_models.chotki.packets.parcels import ParcelReader, read_end
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.sessions.host import Host
from culm_models.chotki.sessions.own_ids import OwnIds
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.sync.open_syncs import OpenSync, OpenSyncs
from culm_models.chotki.sync.progress import IncomingProgress


class SyncReceiver:
    """Takes H, D and V of any sync on one connection.

    `report` gets events, `forward` the records that were taken. Its methods raise what is to end the session.
    """

    __slots__ = (
        "_announced",
        "_compat",
        "_forward",
        "_host",
        "_own_ids",
        "_peer_t",
        "_report",
        "_settings",
        "_syncs",
        "peer_diff_is_in",
        "progress",
    )

    def __init__(
        self,
        host: Host,
        settings: ChotkiSettings,
        compat: Compat,
        own_ids: OwnIds,
        *,
        report: Callable[[events.SessionEvent], None],
        forward: Callable[[bytes], None],
    ) -> None:
        self._host = host
        self._settings = settings
        self._compat = compat
        self._own_ids = own_ids
        self._report = report
        self._forward = forward
        self._syncs = OpenSyncs(settings, host.open_spool)
        self._peer_t: Id | None = None
        self._announced: dict[int, int] = {}
        self.progress = IncomingProgress(0)
        """Of the peer's own diff."""
        self.peer_diff_is_in = False
        """Whether V of the peer's own diff came: of a long one that of the part which claims all of it."""

    @property
    def open_syncs(self) -> list[OpenSync]:
        """Syncs whose V has not come."""
        return list(self._syncs)

    def begin(self, peer: Handshake, record: bytes, own: Mapping[int, int], now_ms: int) -> None:
        """The peer's first H; ``own`` is the vector of ours."""
        self._peer_t = peer.t
        self._announced = parse_vector(peer.vector)
        self.progress = IncomingProgress.expected(self._announced, own)
        self._open(peer, record, now_ms)

    def open(self, packet: Packet, record: bytes, now_ms: int) -> None:
        """H of a sync: of the peer itself, or of a replica behind it."""
        if self._is_loop(packet.id):
            return
        found = read_handshake(packet, compat=self._compat)
        if self._own_ids.is_beyond(found.t):
            self._own_ids.take(found.t)
        self._open(found, record, now_ms)

    def _open(self, found: Handshake, record: bytes, now_ms: int) -> None:
        self._syncs.open(found.t, found.vector, is_peers=found.t == self._peer_t, now_ms=now_ms)
        self._report(events.SyncOpened(found.t))
        self._forward(record)

    def read_parcel(self, record: bytes) -> ParcelReader:
        """A reader of a D: for its `check`, then for `parcel`."""
        set_aside = self._settings.unreadable_values == "quarantine"
        return ParcelReader(record, compat=self._compat, set_aside=set_aside)

    def parcel(self, parcel: ParcelReader, size: int, now_ms: int) -> Iterator[None]:
        """D, of ``size`` bytes, whose form is good; after each step others may run."""
        if self._is_loop(parcel.t):
            return
        sync = self._syncs.get(parcel.t)
        self._syncs.take_room(sync, size)
        for fields in parcel.slices():
            self._syncs.add(sync, fields, now_ms)
            yield
        sync.heard_at_ms = now_ms
        for one in parcel.unreadable:
            self._report(events.Quarantined(one.id, one.letter, one.value, one.error.code))
        # Nobody else gets what does not parse either.
        self._forward(parcel.readable())
        if sync.is_peers:
            self.progress.take(parcel.block, size)

    def _is_loop(self, t: Id) -> bool:
        """Whether it is an own sync that came round: some other replica passed it on in a circle."""
        is_ours = t.src == self._host.src or (t != self._peer_t and self._host.is_ours(t.src))
        found = is_ours and self._compat is Compat.DEFAULT
        if found:
            self._report(events.Loop(t))
        return found

    def end(self, packet: Packet, record: bytes) -> None:
        """V: the sync takes effect."""
        if self._is_loop(packet.id):
            return
        sync = self._syncs.get(packet.id)
        vectors = read_end(packet, compat=self._compat)
        own = self._host.commit_sync(sync, vectors)
        if own is not None:
            self._report(events.OwnSource(own))
        self._report(events.SyncCommitted(sync.t, sync.fields, len({block for block, _ in vectors})))
        self._syncs.forget(sync.t)
        self._forward(record)
        self.peer_diff_is_in |= sync.is_peers and self._claims_all(sync)

    def _claims_all(self, sync: OpenSync) -> bool:
        claimed = parse_vector(sync.vector)
        return all(claimed.get(src, -1) >= pro for src, pro in self._announced.items())

    def check_expiry(self, now_ms: int) -> None:
        """Forget forwarded syncs of which nothing comes; raise `SyncExpired` if it is the peer's own."""
        for sync in self._syncs.expired(now_ms):
            if sync.is_peers:
                raise SyncExpired(f"nothing came for the sync {sync.t} in {self._settings.sync_expiry_ms} ms")
            self._report(events.SyncDropped(sync.t, SyncExpired.code))
            self._syncs.forget(sync.t)

    def next_expiry_ms(self) -> int | None:
        """When `check_expiry` has something to do."""
        return self._syncs.next_expiry_ms()

    def forget_all(self) -> None:
        """The session is over: nothing of what is open takes effect."""
        self._syncs.forget_all()
