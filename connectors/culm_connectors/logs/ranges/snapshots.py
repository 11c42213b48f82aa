"""Makes the snapshots of sessions from one or more indexes, and caches results for the next session.

The cache holds the merged orders of the latest sets of indexes, and bases under lifts other than the index's
own. A salted lift is new in every session and costs a quarter of a second at a million logs; `xor64` and
`add64` cost about one and a half seconds. Both may be requested from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from culm_connectors.logs.ranges.columns import Columns, accumulate, order
from culm_connectors.logs.ranges.index import Layers, RangeIndex
from culm_connectors.logs.ranges.overlay import Overlay
from culm_connectors.logs.ranges.snapshot import RangeSnapshot
from culm_models.lifts import DEFAULT, Lift


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """Several indexes as one sorted set: the merged order of their bases, and of their overlays.

    Only the merged base is stored. The union is exact if each log is in one index only, as logs of schemas
    are. `places` holds, for each base, the new position of its rows.
    """

    lift: Lift
    bases: tuple[Columns, ...]
    base: Columns
    places: tuple[NDArray[np.int32], ...]

    @classmethod
    def of(cls, lift: Lift, bases: Sequence[Columns]) -> Union:
        """Merge sorted columns: a tenth of a second for a million logs."""
        keys = np.concatenate([base.keys for base in bases])
        # A stable sort recognises sorted runs and merges them.
        in_order = np.argsort(order(keys), kind="stable")
        heights = np.concatenate([base.heights for base in bases])[in_order]
        lanes = np.concatenate([base.lanes(lift) for base in bases])[in_order]
        places = np.empty(len(keys), np.int32)
        places[in_order] = np.arange(len(keys), dtype=np.int32)
        ends = np.cumsum([len(base) for base in bases])
        merged = Columns(keys[in_order], heights, accumulate(lift, lanes))
        return cls(lift, tuple(bases), merged, tuple(np.split(places, ends[:-1])))

    def overlay(self, overlays: Sequence[Overlay]) -> Overlay:
        """Combine the overlays of these bases into one overlay over the merged base."""
        places = np.concatenate(
            [own[overlay.places] for own, overlay in zip(self.places, overlays, strict=True)]
        ).astype(np.int64)
        in_order = np.argsort(places, kind="stable")
        heights = np.concatenate([overlay.heights for overlay in overlays])[in_order]
        differences = np.concatenate([overlay.differences(self.lift) for overlay in overlays])[in_order]

        keys = np.concatenate([overlay.added.keys for overlay in overlays])
        added_order = np.argsort(order(keys), kind="stable")
        added_heights = np.concatenate([overlay.added.heights for overlay in overlays])[added_order]
        lanes = np.concatenate([overlay.added.lanes(self.lift) for overlay in overlays])[added_order]
        added = Columns(keys[added_order], added_heights, accumulate(self.lift, lanes))
        before, _ = self.base.find(added.order)
        return Overlay(places[in_order], heights, accumulate(self.lift, differences), added, before)


_KEPT = 4

Made = TypeVar("Made")


class Snapshots:
    """Snapshots over indexes that all have the lift `own`; usable from any thread."""

    def __init__(self, own: Lift = DEFAULT) -> None:
        self._own = own
        self._unions = _Latest[Union]()
        self._layers = _Latest[Layers]()
        self._lifted = _Latest[Columns]()

    def of(self, indexes: Sequence[RangeIndex], lift: Lift, salt: bytes = b"") -> RangeSnapshot:
        """Returns the logs of these indexes as one set, with fingerprints under this lift and salt."""
        base, overlay = self._joined(indexes)
        if lift == self._own:
            return RangeSnapshot(base, overlay, lift, salt)
        overlay = overlay.relifted(base, lift, salt)
        if salt:
            return RangeSnapshot(base.relifted(lift, salt), overlay, lift, salt)
        key = (lift.name, *map(id, indexes))
        return RangeSnapshot(
            self._lifted.get(key, (base,), lambda: base.relifted(lift, salt)), overlay, lift, salt
        )

    def _joined(self, indexes: Sequence[RangeIndex]) -> Layers:
        # An index without a base has an empty overlay too, so it holds no logs.
        indexed_layers = [(id(index), *index.layers()) for index in indexes]
        indexed_layers = [layers for layers in indexed_layers if len(layers[1])]
        if not indexed_layers:
            return Columns.empty(self._own), Overlay.empty(self._own)
        if len(indexed_layers) == 1:
            return indexed_layers[0][1:]
        key, bases, overlays = zip(*indexed_layers, strict=True)
        union = self._unions.get(key, bases, lambda: Union.of(self._own, bases))
        return self._layers.get(key, (union, *overlays), lambda: (union.base, union.overlay(overlays)))


class _Latest(Generic[Made]):
    """Cache of the latest value under each of a few keys, valid while its sources are the same objects."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[tuple[object, ...], Made]] = OrderedDict()

    def get(self, key: Hashable, sources: tuple[object, ...], make: Callable[[], Made]) -> Made:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and all(a is b for a, b in zip(kept[0], sources, strict=True)):
                self._kept.move_to_end(key)
                return kept[1]
            # The old value is freed before the new one is made: at a million logs they are large.
            self._kept.pop(key, None)
        del kept
        made = make()
        with self._lock:
            self._kept[key] = (sources, made)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made
