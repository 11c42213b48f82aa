"""The folder of a connector that served a peer, with its topics: a key, the index, that of the store."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.edge.keyfile import make_key
from culm_connectors.logs.index import LmdbLogStore, close_index
from culm_connectors.logs.replicated_logs import INDEX_FOLDER, INDEXED_TOPICS
from culm_connectors.sds.kafka_backbone import INDEX_FILE
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import ask_origin
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from culm_topics.sds.index import SdsIndex
from tests.support.connectors.edge import connector, reference_peer, running, write_document
from tests.support.freeze import frozen
from tests.support.freeze.lists import metrics
from tests.support.freeze.topics import Input, keep_topics, restore_topics, write
from tests.support.kafka.broker import Broker, running_broker
from tests.support.p2panda.logs import author, make_log
from tests.support.process.waiting import until
from tests.support.sds.topics import PARTITIONS, message_of, store, write_index

NAME = "connector"
PREFIX = "frozen-edge."
LOG = make_log(author("ann"), 3, 14)
HELD = 12
"""So many entries of the log are in the index."""
PUBLISHED = 5
MESSAGES = tuple(message_of(f"m{number}", number) for number in range(6))
STORED = 4


def make_connector(folder: Path) -> None:
    """The fixture: a connector reads a log, is brought a document, and somebody looks into the store."""
    with running_broker(folder / "kafka") as broker:
        kafka = settings(broker)
        admin.create(kafka)
        kept = folder / "kept"
        make_key(kept / "home", author("edge").private_key)
        write(kafka, told(LOG[:HELD]))
        write_index(kafka, "room", store(kafka, "room", MESSAGES[:STORED]))
        asyncio.run(_serve(kept / "home", kafka, folder))
        with SdsIndex(kafka, kept / "home" / INDEX_FILE) as index:
            index.catch_up()
        keep_topics(kafka, kept / "topics.cbor")
        frozen.pack(kept, NAME)


async def _serve(home: Path, kafka: KafkaSettings, folder: Path) -> None:
    async with running(connector(home, kafka)) as edge, reference_peer(folder, "carol") as carol:
        assert edge.address is not None
        written = await write_document(carol, PUBLISHED - 1)
        await carol.sync(edge.address)
        await until(lambda: edge.index.store.height(*written[0].log) == PUBLISHED)
        await until(lambda: edge.index.store.height(*LOG[0].log) == HELD)


def settings(broker: Broker) -> KafkaSettings:
    """The deployment of the fixture."""
    return KafkaSettings(bootstrap=broker.bootstrap, prefix=PREFIX, partitions=PARTITIONS)


def restore(kafka: KafkaSettings, folder: Path) -> Path:
    """Put the fixture's topics on this broker; returns the connector's folder, as filled from them."""
    frozen.unpack(NAME, folder)
    restore_topics(kafka, folder / "topics.cbor")
    home, client = folder / "home", clients.admin(kafka)
    index = LmdbLogStore(peek, home / INDEX_FOLDER)
    index.set_meta("origin", ask_origin(client, map(kafka.topic, INDEXED_TOPICS)).encode())
    close_index(index)
    names = [kafka.topic(name) for name in ("sds.index", "sds.messages")]
    ids = ask_origin(client, names).topic_ids
    with closing(sqlite3.connect(home / INDEX_FILE)) as file, file:
        file.execute("UPDATE about SET origin = ?", (" ".join(ids[name] for name in names),))
    return home


def told(log: list[CheckedOperation]) -> list[Input]:
    """The log as the streaming job tells of it."""
    return [
        (
            "logs",
            0,
            log_key(*entry.log),
            LogRecord(
                entry.entry.seq_num, entry.entry_bytes, entry.payload_bytes, entry.hash, entry.schema_id
            ).encode(),
        )
        for entry in log
    ]


METRICS = "metrics-of-connector"
"""The list of the metrics of a connector, and the name under which it is accepted."""


def accept_metrics(folder: Path) -> None:
    """Accept them as they are now."""
    with running_broker(folder / "kafka") as broker:
        kafka = settings(broker)
        admin.create(kafka)
        frozen.keep_list(METRICS, asyncio.run(metrics_of(folder / "home", kafka)))


async def metrics_of(home: Path, kafka: KafkaSettings) -> list[str]:
    """The metrics of a connector that serves everybody whom it can serve."""
    chotki = ChotkiEdgeSettings(listen=("tcp://127.0.0.1:0",))
    async with running(connector(home, kafka, listen_libp2p=("127.0.0.1", 0), chotki=chotki)) as edge:
        await until(lambda: edge.health.last_progress_s() is not None)
        return metrics(edge.collector.collect())
