"""One end of a diff sync in a separate process: ``python -m bench.chotki_ends serve|fetch …``.

`serve FOLDER OBJECTS` answers as an edge does, from its local store in lmdb, and prints its port; it ends
with its standard input. `fetch PORT ENTRY` connects as a fresh replica. It prints how long it took until it
held the source's packets up to that entry (an ID), and how many bytes it received.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from bench import chotki_material as material
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_models.chotki import events
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OBJECT_KEY, Id
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore, StoreSnapshot
from culm_topics.chotki.records import BlockVectorRecord, EpochRecord, FieldRecord
from culm_topics.kafka.origin import Origin

SRC = 0xA
_FETCHING_SRC = 0xB
_MAP_BYTES = 64 * 1024 * 1024
_MOST_BYTES = 16 * 1024 * 1024 * 1024
_TIMEOUT_S = 300.0


class _FromStore(Replica):
    """A replica whose diffs come from an edge's store."""

    def __init__(self, kept: ChotkiStore) -> None:
        super().__init__(SRC)
        self._kept = kept

    def snapshot(self) -> StoreSnapshot:
        return self._kept.snapshot()


def fill(folder: Path, objects: int) -> ChotkiStore:
    """Fill an edge's store at one epoch with so many objects."""
    store = ChotkiStore.open(
        folder, Origin("bench", {}), map_size_bytes=_MAP_BYTES, max_size_bytes=_MOST_BYTES
    )
    values = material.store(SRC, objects)
    vector = values.pop(GLOBAL_VECTOR_KEY)
    records = (
        (key, FieldRecord(value).encode() if key[0] == OBJECT_KEY else BlockVectorRecord(value).encode())
        for key, value in values.items()
    )
    store.apply(records, EpochRecord(1, vector, (), (), ()), {0: 1})
    return store


async def _serve(folder: Path, objects: int) -> None:
    store = await asyncio.to_thread(fill, folder, objects)
    peer = ReplicaPeer(_FromStore(store))
    async with serve_tcp(("127.0.0.1", 0), peer.run_session, TcpSettings()) as listener:
        _report(port=listener.address[1])
        await asyncio.to_thread(sys.stdin.read)
    store.close()


async def _fetch(port: int, entry: Id) -> None:
    replica = Replica(_FETCHING_SRC, MemoryStore(material.store(_FETCHING_SRC, 0)))
    peer = ReplicaPeer(replica)
    whole = asyncio.Event()

    def heard(_: str, event: events.SessionEvent) -> None:
        if isinstance(event, events.SyncCommitted) and replica.vector().get(entry.src) == entry.pro:
            whole.set()

    peer.listeners.append(heard)
    started_s = time.perf_counter()
    channel = await connect_tcp(("127.0.0.1", port), TcpSettings())
    speaking = asyncio.create_task(peer.run_session(channel))
    async with asyncio.timeout(_TIMEOUT_S):
        await whole.wait()
    seconds = time.perf_counter() - started_s
    received = channel.statistics().received_bytes
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    _report(seconds=seconds, bytes=received, fields=len(replica.store))


def _report(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


def main() -> None:
    do, *arguments = sys.argv[1:]
    if do == "serve":
        folder, objects = arguments
        asyncio.run(_serve(Path(folder), int(objects)))
    else:
        port, entry = arguments
        asyncio.run(_fetch(int(port), Id.from_text(entry)))


if __name__ == "__main__":
    main()
