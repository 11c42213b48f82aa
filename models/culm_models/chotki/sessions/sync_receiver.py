"""The receiving half of a session: the peer's diff and the diffs that it forwards, from H to V.

Reference 4.2. Nothing takes effect before V. Then everything does, and the replica forwards what it accepted.
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

    `report` gets events, `forward` the accepted records. The methods raise errors that end the session.
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
        """The progress of the peer's own diff."""
        self.peer_diff_is_in = False
        """Whether V of the peer's own diff arrived; for a long one, V of the part that claims all of it."""

    @property
    def open_syncs(self) -> list[OpenSync]:
        """Syncs whose V has not arrived."""
        return list(self._syncs)

    def begin(self, peer: Handshake, record: bytes, own: Mapping[int, int], now_ms: int) -> None:
        """Take the peer's first H; ``own`` is the vector in this side's H."""
        self._peer_t = peer.t
        self._announced = parse_vector(peer.vector)
        self.progress = IncomingProgress.expected(self._announced, own)
        self._open(peer, record, now_ms)

    def open(self, packet: Packet, record: bytes, now_ms: int) -> None:
        """Take H of a sync, either of the peer itself or of a replica behind it."""
        if self._is_loop(packet.id):
            return
        handshake = read_handshake(packet, compat=self._compat)
        if self._own_ids.is_beyond(handshake.t):
            self._own_ids.take(handshake.t)
        self._open(handshake, record, now_ms)

    def _open(self, handshake: Handshake, record: bytes, now_ms: int) -> None:
        self._syncs.open(handshake.t, handshake.vector, is_peers=handshake.t == self._peer_t, now_ms=now_ms)
        self._report(events.SyncOpened(handshake.t))
        self._forward(record)

    def read_parcel(self, record: bytes) -> ParcelReader:
        """Return a reader of a D, for its `check` and then for `parcel`."""
        set_aside = self._settings.unreadable_values == "quarantine"
        return ParcelReader(record, compat=self._compat, set_aside=set_aside)

    def parcel(self, parcel: ParcelReader, size: int, now_ms: int) -> Iterator[None]:
        """Take a D of ``size`` bytes that passed `check`; after each step others may run."""
        if self._is_loop(parcel.t):
            return
        sync = self._syncs.get(parcel.t)
        self._syncs.take_capacity(sync, size)
        for fields in parcel.slices():
            self._syncs.add(sync, fields, now_ms)
            yield
        sync.heard_at_ms = now_ms
        for field in parcel.unreadable:
            self._report(events.Quarantined(field.id, field.letter, field.value, field.error.code))
        # Values that do not parse are not forwarded either.
        self._forward(parcel.readable())
        if sync.is_peers:
            self.progress.take(parcel.block, size)

    def _is_loop(self, t: Id) -> bool:
        """Whether this is a sync of this replica that returned because the replicas form a cycle."""
        is_ours = t.src == self._host.src or (t != self._peer_t and self._host.is_ours(t.src))
        is_loop = is_ours and self._compat is Compat.DEFAULT
        if is_loop:
            self._report(events.Loop(t))
        return is_loop

    def end(self, packet: Packet, record: bytes) -> None:
        """Take V: the sync takes effect."""
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
        """Forget forwarded syncs that stopped arriving; raise `SyncExpired` for the peer's own."""
        for sync in self._syncs.expired(now_ms):
            if sync.is_peers:
                raise SyncExpired(f"nothing came for the sync {sync.t} in {self._settings.sync_expiry_ms} ms")
            self._report(events.SyncDropped(sync.t, SyncExpired.code))
            self._syncs.forget(sync.t)

    def next_expiry_ms(self) -> int | None:
        """Return the time at which `check_expiry` is due, or None if no sync is open."""
        return self._syncs.next_expiry_ms()

    def forget_all(self) -> None:
        """Drop all open syncs because the session is over; they take no effect."""
        self._syncs.forget_all()
