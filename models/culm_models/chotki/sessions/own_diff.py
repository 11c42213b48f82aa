"""This side's diff: what the snapshot of its handshake has and the peer is missing (reference 4.1)."""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id
from culm_models.chotki.packets.handshake import READS_FILTERED_DIFFS, Handshake, write_handshake
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import StoreSnapshot
from culm_models.chotki.sync.diff import Diff, DiffRequest
from culm_models.chotki.sync.progress import NO_PROGRESS, Progress


class OwnDiff:
    """The snapshot of one session, and the diff that is made from it.

    `announced` is the vector in the handshake, `t` the replica's own entry in it.
    """

    __slots__ = ("_compat", "_diff", "_settings", "_snapshot", "_vector", "announced", "t")

    def __init__(self, snapshot: StoreSnapshot, src: int, settings: ChotkiSettings, compat: Compat) -> None:
        self._snapshot: StoreSnapshot | None = snapshot
        self._settings = settings
        self._compat = compat
        self._diff: Diff | None = None
        self._vector = snapshot.get(GLOBAL_VECTOR_KEY) or b""
        self.announced = parse_vector(self._vector)
        self.t = Id(src, self.announced.get(src, 0))

    def handshake(self, mode: int, trace: bytes) -> bytes:
        """Return the H that opens the connection."""
        features = READS_FILTERED_DIFFS if self._compat is Compat.DEFAULT else None
        return write_handshake(self.t, mode, self._vector, trace, features=features)

    def records(self, peer: Handshake, mode: int, trace: bytes) -> Iterator[bytes]:
        """Yield the records of the diff for this peer, as `Diff.records` does."""
        assert self._snapshot is not None, "a snapshot is kept until the diff is out"
        is_go = self._compat is Compat.GO
        request = DiffRequest(
            t=self.t,
            peer=parse_vector(peer.vector),
            filtered=not is_go and bool(peer.features & READS_FILTERED_DIFFS),
            max_parcel_bytes=self._settings.max_parcel_bytes,
            max_record_bytes=self._settings.max_record_bytes,
            cut_bytes=None if is_go else self._settings.sync_cut_bytes,
            handshake=lambda vector: write_handshake(self.t, mode, vector, trace),
            compat=self._compat,
        )
        self._diff = Diff(self._snapshot, request)
        return self._diff.records()

    def progress(self) -> Progress:
        """Return the progress of the diff; all 0 before it begins."""
        return self._diff.progress() if self._diff is not None else NO_PROGRESS

    def release(self) -> None:
        """Release the snapshot: the diff was sent, or never will be. A second call does nothing."""
        if self._snapshot is not None:
            self._snapshot.release()
            self._snapshot = None
