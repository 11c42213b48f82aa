"""A connector goes on in a folder that an earlier program has left: its key, its index, its offsets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from culm_connectors.sds.kafka_backbone import INDEX_FILE
from culm_topics.kafka.client_log import CLIENT_LOG
from culm_topics.sds.index import SdsIndex
from tests.support import frozen
from tests.support.edge import connector, running, topics
from tests.support.freeze import connector as kept
from tests.support.freeze.topics import write
from tests.support.kafka import Broker
from tests.support.logs import author
from tests.support.sds_topics import store, write_index
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def test_a_connector_is_who_it_was_and_reads_on_from_where_it_stood(
    kafka_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = kept.settings(kafka_broker)
    home = kept.restore(kafka, tmp_path)
    write(kafka, kept.told(kept.LOG[kept.HELD :]))
    with caplog.at_level(logging.WARNING):
        async with running(connector(home, kafka)) as edge:
            assert edge.key_pair.public_key == author("edge").public_key
            index = edge.index.store
            await until(lambda: index.height(*kept.LOG[0].log) == len(kept.LOG))
            assert index.counts() == (2, len(kept.LOG) + kept.PUBLISHED)
            # What is in the index was not read again.
            assert edge.followers.logs.taken == len(kept.LOG) - kept.HELD
            carol = author("carol").public_key
            of_author, of_peer = index.usage(carol, carol)
            assert of_author == of_peer > 0
    # What a Kafka client retries by itself is no word of the connector's.
    assert [one for one in caplog.records if one.name != CLIENT_LOG.name] == []


def test_the_index_of_the_store_is_followed_from_where_it_stood(kafka_broker: Broker, tmp_path: Path) -> None:
    kafka = kept.settings(kafka_broker)
    home = kept.restore(kafka, tmp_path)
    write_index(kafka, "room", store(kafka, "room", kept.MESSAGES[kept.STORED :]))
    with SdsIndex(kafka, home / INDEX_FILE) as index:
        assert index.catch_up() == len(kept.MESSAGES) - kept.STORED
        assert len(index.find("room", [one.message_id for one in kept.MESSAGES])) == len(kept.MESSAGES)


async def test_the_metrics_are_the_accepted_ones(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    found = await kept.metrics_of(tmp_path, topics(kafka_bootstrap, topic_prefix))
    frozen.assert_list(kept.METRICS, found, accept=kept.METRICS)
