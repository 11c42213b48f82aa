"""`RangeIndex`: the logs of one schema in order, kept up while they grow.

There are three layers: updates wait in a dictionary, a batch of them goes into a new overlay, and a grown
overlay is merged into new base columns. An update costs a dictionary look-up, and every thousandth costs two
or three milliseconds. A merge costs tens of milliseconds at a million logs. It is offered as work for any
thread (`merge_work`). If no caller takes it, it is done in line, but much later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from culm_connectors.logs.ranges.columns import Columns, Rows, U64s, numbers, order, sorted_rows
from culm_connectors.logs.ranges.overlay import Overlay, Updates, apply, changing, merge
from culm_models.lifts import DEFAULT, Lift

Layers = tuple[Columns, Overlay]


@dataclass(frozen=True, slots=True)
class LayerLimits:
    """Sizes at which a layer is merged into the layer below."""

    pending: int = 1_024
    """Number of updates in the dictionary at which they go into the overlay."""
    overlay: int = 4_096
    """Number of rows up to which an overlay is not worth merging."""
    overlay_share: int = 64
    """Divisor: a merge is due when the overlay has more than 1/`overlay_share` of the base's rows."""
    small: int = 65_536
    """Number of rows up to which a merge takes a few milliseconds and is done in line."""
    in_line: int = 8
    """Factor by which an overlay may exceed its limit before it is merged in line."""


class RangeIndex:
    """Heights of logs by key (40 bytes: public key, log id big-endian), under one lift without a salt.

    Methods may be called from any thread; each holds a lock for as long as it changes something.
    """

    def __init__(self, lift: Lift = DEFAULT, limits: LayerLimits | None = None) -> None:
        assert lift.salt_bytes == 0, "a salt belongs to a session, not to an index"
        self.lift = lift
        self._limits = limits or LayerLimits()
        self._lock = threading.Lock()
        self._base = Columns.empty(lift)
        self._overlay = Overlay.empty(lift)
        # Pending heights. A height that only raises is stored as it is, an exact height as its complement.
        self._pending: dict[bytes, int] = {}
        # Updates that went into the overlay since a merge of the base was handed out.
        self._since: list[Updates] | None = None
        self._is_due = False

    def __len__(self) -> int:
        base, overlay = self.layers()
        return len(base) + len(overlay.added)

    def raise_height(self, log_key: bytes, height: int) -> None:
        """Raise the height of a log, which may be new. A lower height than the known one changes nothing."""
        with self._lock:
            waiting = self._pending.get(log_key)
            if waiting is None:
                self._pending[log_key] = height
                if len(self._pending) >= self._limits.pending:
                    self._fold()
            elif waiting < 0:
                self._pending[log_key] = ~max(~waiting, height)
            elif waiting < height:
                self._pending[log_key] = height

    def set_height(self, log_key: bytes, height: int) -> None:
        """Set the height of a log, also to a lower value; 0 removes the log."""
        with self._lock:
            self._pending[log_key] = ~height
            if len(self._pending) >= self._limits.pending:
                self._fold()

    def load(self, keys: Rows, heights: U64s, *, exact: bool = False) -> None:
        """Load many logs at once, in any order. Heights are raised, or set if `exact`.

        A million logs take about a second; other callers wait only while the differing rows are put in.
        """
        if not exact:
            keys, heights = keys[heights > 0], heights[heights > 0]
        keys, heights = sorted_rows(keys, heights)
        updates = Updates(keys, heights, np.full(len(keys), exact))
        current_base, overlay = self.layers()
        base = None
        if len(current_base):
            updates = changing(current_base, overlay, updates)
        elif heights.all():
            base = Columns.of(self.lift, b"", keys, heights)
        with self._lock:
            if base is not None and not len(self._base):
                self._base = base
                return
            self._fold()
            self._put(updates)

    def layers(self) -> Layers:
        """Returns the current state as two immutable layers."""
        with self._lock:
            self._fold()
            return self._base, self._overlay

    @property
    def merge_is_due(self) -> bool:
        """Whether `merge_work` would return work."""
        return self._is_due

    def merge_work(self) -> Callable[[], None] | None:
        """Returns the merge as a function to run once, in any thread, or None if no merge is due."""
        with self._lock:
            if not self.merge_is_due:
                return None
            self._fold()
            base, overlay = self._base, self._overlay
            self._since, self._is_due = [], False
        return lambda: self._merge(base, overlay)

    def _merge(self, base: Columns, overlay: Overlay) -> None:
        merged = None
        try:
            merged = merge(self.lift, base, overlay)
        finally:
            with self._lock:
                if self._base is base:
                    since, self._since = self._since or (), None
                    if merged is not None:
                        self._base, self._overlay = merged, Overlay.empty(self.lift)
                        for updates in since:
                            self._put(updates)
                    self._is_due = self._is_grown(1)

    def _is_grown(self, factor: int) -> bool:
        limits = self._limits
        return len(self._overlay) > factor * max(limits.overlay, len(self._base) // limits.overlay_share)

    def _fold(self) -> None:
        if not self._pending:
            return
        keys = np.frombuffer(b"".join(self._pending), np.uint8).reshape(len(self._pending), -1)
        heights = numbers([~waiting if waiting < 0 else waiting for waiting in self._pending.values()])
        exact = np.array([waiting < 0 for waiting in self._pending.values()])
        self._pending = {}
        in_order = np.argsort(order(keys))
        self._put(Updates(keys[in_order], heights[in_order], exact[in_order]))

    def _put(self, updates: Updates) -> None:
        applied = apply(self.lift, self._base, self._overlay, updates)
        self._overlay = applied.overlay
        small = len(self._base) + len(self._overlay) <= self._limits.small
        if (
            len(applied.removed)
            or not len(self._base)
            or self._is_grown(1 if small else self._limits.in_line)
        ):
            self._base = merge(self.lift, self._base, self._overlay, applied.removed)
            self._overlay = Overlay.empty(self.lift)
            # A merge of the old base that is still running is discarded.
            self._since = None
        elif self._since is not None:
            self._since.append(updates)
        self._is_due = self._since is None and self._is_grown(1)
