"""Entries that a p2panda node refuses: they delay nothing else, and are sent less and less often."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.p2panda.aquadoggo import refusals
from tests.support.p2panda.histories import History, NodeModel
from tests.support.p2panda.logs import author
from tests.support.p2panda.node_edge import Edge, conversation


async def test_what_a_node_refuses_is_in_the_way_of_nothing_else(tmp_path: Path) -> None:
    history = History()
    for log_id in range(10):
        conversation(history, log_id, 2)
    misfits = {history.logs[author("ann").public_key, log_id][0].hash for log_id in (0, 4, 5)}
    misfits.add(history.logs[author("bob").public_key, 7][0].hash)
    edge = Edge(tmp_path, NodeModel(misfits))
    edge.store.append(history.written)
    for _ in range(len(misfits) + 1):
        await edge.session()
    ann = author("ann").public_key
    heights = {log_id: len(edge.node.logs.get((ann, log_id), ())) for log_id in range(10)}
    assert heights == {0: 0, 4: 0, 5: 0, 7: 1} | dict.fromkeys((1, 2, 3, 6, 8, 9), 2)
    edge.store.close()


async def test_what_a_node_refuses_is_sent_ever_less_often_and_then_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = History()
    conversation(history, 0, 3)
    misfit = history.written[1].hash
    edge = Edge(tmp_path, NodeModel({misfit}))
    edge.store.append(history.written)
    in_sessions = []
    for number in range(100):
        before = edge.node.brought[misfit]
        await edge.session()
        in_sessions += [number] * (edge.node.brought[misfit] - before)
        conversation(history, number + 1, 1)
        edge.store.append(history.written[-2:])
    assert in_sessions == [0, 1, 3, 7, 15, 31]
    assert len(in_sessions) == refusals.MAX_ATTEMPTS
    assert caplog.text.count("is refused") == caplog.text.count("is not sent to it again") == 1
    # All that came meanwhile was taken, most of it at the first attempt.
    assert len(edge.node.operations) == 2 * 99 + 1
    edge.store.close()


async def test_an_entry_that_is_taken_after_all_is_sent_on_from(tmp_path: Path) -> None:
    history = History()
    for log_id in range(3):
        conversation(history, log_id, 1)
    first = history.logs[author("ann").public_key, 0][0].hash
    edge = Edge(tmp_path, NodeModel({first}))
    edge.store.append(history.written)
    assert not await edge.session()
    assert not await edge.session()
    assert len(edge.node.operations) == 4
    edge.node.misfits.clear()
    for _ in range(2):
        assert await edge.session()
    assert set(edge.node.operations) == set(history.document)
    edge.store.close()


async def test_what_a_node_drops_without_ending_the_session_is_no_refusal(edge: Edge) -> None:
    history = History()
    for log_id in range(3):
        conversation(history, log_id, 1)
    edge.store.append(history.written)
    parts = await edge.arranged()
    dropped = parts[0]
    assert edge.node.take(edge.entries(parts[2:]))
    assert dropped in await edge.arranged()
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)
