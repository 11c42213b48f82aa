"""Chotki's local store at an edge: two epochs in it, and what comes next of `chotki.state`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from culm_connectors.chotki.local_state.staged_state import StagedState
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_topics.kafka.origin import Origin
from tests.support.chotki.state import StateLog
from tests.support.freeze.chotki_state import topic

NAME = "chotki-store"
ORIGIN = Origin("frozen-cluster", {"culm.chotki.state": "a"})
KEPT_EPOCHS, EPOCHS = 2, 3
_MIB = 1 << 20


def opened(folder: Path) -> ChotkiStore:
    """The store of a folder, as an edge opens it."""
    return ChotkiStore.open(folder, ORIGIN, map_size_bytes=_MIB, max_size_bytes=64 * _MIB)


def follow(store: ChotkiStore, log: StateLog) -> None:
    """Read on from where the store is, to the end."""
    staged = StagedState(range(len(log.partitions)), store.marks)
    for number, records in enumerate(log.partitions):
        for record in records:
            if record.offset >= store.state_offsets.get(number, 0):
                assert record.key is not None and record.value is not None
                staged.add(number, record.offset, record.key, record.value)
    whole = staged.take()
    assert whole is not None, "there is an epoch to come"
    store.apply(whole.records, whole.mark, whole.offsets)


def make(folder: Path) -> None:
    """A store that has read the first epochs."""
    store = opened(folder)
    follow(store, topic(KEPT_EPOCHS))
    store.close()


def read(folder: Path) -> dict[str, Any]:
    """What an edge serves from the store, and what after the epoch that comes next."""
    store = opened(folder)
    kept = held(store)
    follow(store, topic(EPOCHS))
    gone_on = held(store)
    store.close()
    return {"kept": kept, "gone on": gone_on}


def held(store: ChotkiStore) -> dict[str, Any]:
    """Everything that is in it."""
    snapshot = store.snapshot()
    contents = {
        "epoch": snapshot.epoch,
        "vector": dict(snapshot.vector),
        "packets": dict(snapshot.packets),
        "offsets": dict(store.state_offsets),
        "fields": {key: [value, seen] for key, value, seen in snapshot.fields(b"")},
        "vectors": dict(snapshot.vectors()),
    }
    snapshot.release()
    return contents
