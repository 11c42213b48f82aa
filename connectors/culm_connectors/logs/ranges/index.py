"""`RangeIndex`: the logs of one schema in order, kept up while they grow.

Three layers: updates wait in a dictionary; a bunch of them is put into a new overlay; a grown overlay is
merged into new base columns. One update costs a dictionary look-up, and every thousandth two or three
milliseconds. A merge costs tens of milliseconds at a million logs and is handed out as a piece of work
that runs in any thread (`merge_work`); only where nobody takes it is it done in line, much later.
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
    """How large the layers grow before they are put into the one below."""

    pending: int = 1_024
    """Updates that wait in the dictionary."""
    overlay: int = 4_096
    """Rows of an overlay that is not worth merging."""
    overlay_share: int = 64
    """An overlay is merged when it has this part of the base's rows."""
    small: int = 65_536
    """Rows up to which a merge is a matter of a few milliseconds, not worth a thread."""
    in_line: int = 8
    """How many times larger an overlay may grow where no one takes the work of merging."""


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
        # What is to come: a height that raises as it is, an exact one as its complement.
        self._pending: dict[bytes, int] = {}
        # What was put into the overlay since the base was given out to be merged.
        self._since: list[Updates] | None = None
        self._is_due = False

    def __len__(self) -> int:
        base, overlay = self.layers()
        return len(base) + len(overlay.added)

    def raise_height(self, log_key: bytes, height: int) -> None:
        """A log has grown, or is new; nothing happens when it is known to be higher."""
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
        """A log has exactly this height now, also when it was higher; 0 removes it."""
        with self._lock:
            self._pending[log_key] = ~height
            if len(self._pending) >= self._limits.pending:
                self._fold()

    def load(self, keys: Rows, heights: U64s, *, exact: bool = False) -> None:
        """Many logs at once, in any order: what is held is raised, or set if `exact`.

        A million take about a second, of which others wait only while what differs is put in.
        """
        if not exact:
            keys, heights = keys[heights > 0], heights[heights > 0]
        keys, heights = sorted_rows(keys, heights)
        updates = Updates(keys, heights, np.full(len(keys), exact))
        held, overlay = self.layers()
        base = None
        if len(held):
            updates = changing(held, overlay, updates)
        elif heights.all():
            base = Columns.of(self.lift, b"", keys, heights)
        with self._lock:
            if base is not None and not len(self._base):
                self._base = base
                return
            self._fold()
            self._put(updates)

    def layers(self) -> Layers:
        """Everything up to now, as two layers that never change."""
        with self._lock:
            self._fold()
            return self._base, self._overlay

    @property
    def merge_is_due(self) -> bool:
        """Whether `merge_work` would give something to do."""
        return self._is_due

    def merge_work(self) -> Callable[[], None] | None:
        """The work of merging, to be run once in any thread; None when there is none to do."""
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
            # Whoever merges the old base works for nothing.
            self._since = None
        elif self._since is not None:
            self._since.append(updates)
        self._is_due = self._since is None and self._is_grown(1)
