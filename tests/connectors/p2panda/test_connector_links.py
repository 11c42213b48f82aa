"""Connectors that are linked over QUIC and share no topics."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord
from tests.support.connector_topics import read_topic
from tests.support.edge import connector, reference_peer, running, topics, write_document
from tests.support.logs import SCHEMA, pairs
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def entries_of(kafka: KafkaSettings, count: int) -> dict[tuple[bytes, bytes], bytes]:
    """Who brought each of the entries on `entries`, once there are this many records."""
    messages = await read_topic(kafka, "entries", lambda found: len(found) >= count)
    records = [EntryRecord.decode(message.value()) for message in messages]
    assert len(records) == count, "each entry is there once"
    return {(record.entry, record.operation): record.brought_by for record in records}


async def test_entries_cross_a_link_both_ways_once(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    here = topics(kafka_bootstrap, f"here-{topic_prefix}")
    there = topics(kafka_bootstrap, f"there-{topic_prefix}")
    async with running(connector(tmp_path / "here", here)) as first:
        assert first.address is not None
        async with (
            running(connector(tmp_path / "there", there, dial=(first.address,))) as second,
            reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
            reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        ):
            assert second.address is not None
            before = await write_document(a, 4)
            a.dial(first.address)
            b.dial(second.address)
            await b.wait_until_holding({before[0].log: 5}, 30)
            after = await write_document(b, 6)
            await a.wait_until_holding({after[0].log: 7}, 30)
            assert a.heights() == b.heights()
            wanted = set(pairs(before) + pairs(after))
            brought_here, brought_there = await entries_of(here, 12), await entries_of(there, 12)
            assert set(brought_here) == set(brought_there) == wanted
            assert set(brought_here.values()) == {a.peer_id, second.key_pair.public_key}
            assert set(brought_there.values()) == {b.peer_id, first.key_pair.public_key}
            assert first.interest.served == second.interest.served == (SCHEMA,)
            assert second.driver.metrics.sessions_by_mode[1] >= 1


async def test_a_link_that_was_cut_catches_up(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    here = topics(kafka_bootstrap, f"here-{topic_prefix}")
    there = topics(kafka_bootstrap, f"there-{topic_prefix}")
    only = {"schemas": (SCHEMA,)}
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(running(connector(tmp_path / "here", here, **only)))
        assert first.address is not None
        address = first.address
        async with (
            running(connector(tmp_path / "there", there, dial=(address,), **only)) as second,
            reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        ):
            assert second.address is not None
            b.dial(second.address)
            log = await write_document(b, 3)
            await until(lambda: first.index.store.height(*log[0].log) == 4)
            await stack.aclose()
            await until(lambda: not second.driver.peer.sessions(first.key_pair.public_key))
            more = await write_document(b, 9)
            await until(lambda: second.index.store.height(*more[0].log) == 10)
            async with running(connector(tmp_path / "here", here, listen=address, **only)) as again:
                await until(lambda: again.index.store.height(*more[0].log) == 10)
                assert again.driver.metrics.rejects.total() == 0
