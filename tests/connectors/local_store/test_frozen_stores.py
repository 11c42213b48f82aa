"""The lmdb stores that an earlier program has written are read as it would read them, and go on."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from culm_connectors.edge.keyfile import load_key
from culm_connectors.logs.index import close_index, layout, open_index
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_models.p2panda.operations.operation import peek
from tests.support import frozen
from tests.support.freeze import stores
from tests.support.histories import random_history
from tests.support.logs import SCHEMA, author


def test_a_kept_index_of_this_format_gives_back_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert layout.FORMAT == 3, "make the fixture anew, and keep this one beside those of earlier formats"
    with caplog.at_level(logging.INFO):
        store = open_index(peek, frozen.unpack("lmdb-index", tmp_path), stores.ORIGIN)
    assert not caplog.records, "neither in doubt, nor dropped, nor upgraded"
    frozen.assert_as_kept("lmdb-index", stores.index_as_read(store))
    close_index(store)


def test_a_kept_index_goes_on_where_it_stood(tmp_path: Path) -> None:
    history = random_history(random.Random(13), 90, stores.NAMES, deletes=0.2)
    (missing, *_) = [log for log, entries in history.logs.items() if entries[0].facts.action == "create"]
    create = history.logs[missing][0].hash
    others = [one for one in history.written if history.document[one.hash] == create and one.log != missing]
    store = open_index(peek, frozen.unpack("lmdb-index", tmp_path), stores.ORIGIN)
    assert others and {store.document_of(one.hash) for one in others} == {None}
    revision = store.revision
    store.append(history.logs[missing])
    assert {store.document_of(one.hash) for one in others} == {create}
    place = store.place_of(create)
    assert place is not None and place.revision > revision
    assert store.contradictions() == {}
    close_index(store)


async def test_a_kept_peer_is_the_same_and_writes_on(tmp_path: Path) -> None:
    home = frozen.unpack("peer", tmp_path)
    assert load_key(home).public_key == author("peer").public_key
    async with ReferencePeer(home) as peer:
        (log,) = peer.heights()
        assert peer.heights() == {log: 7}
        document_id = peer.store.log_info(*log).document_id  # type: ignore[union-attr]
        (update,) = await peer.publish([Draft("update", SCHEMA, {"name": "on"}, document_id=document_id)])
        assert (update.log, update.entry.seq_num) == (log, 8)
