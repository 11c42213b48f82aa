"""What an edge drops of payloads: nothing before Kafka has it, no entries, and it comes back by nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.edge.access import edge_rules
from culm_connectors.bamboo_p2p.edge.log_kinds import LogKinds
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.policy.document import RetentionRule
from culm_connectors.bamboo_p2p.policy.retention import retain
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.kafka import ProducerRecord
from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.url import Url
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadSkipped, PayloadVerified
from culm_models.keys import KeyPair
from culm_topics.logs.records import HoldingRecord, LogRecord, payload_chunk_key
from culm_topics.records import log_key
from tests.connectors.bamboo_p2p.edge.test_kafka_outbox import OUTBOXED, OutboxedFolder
from tests.support.bamboo.brokerless import KAFKA, MemoryTopics, brokerless_edge
from tests.support.bamboo.edge import offering, peer_at
from tests.support.process.waiting import until

AUTHOR = KeyPair.generate(b"author of what is dropped")
LOG = (AUTHOR.public_key, 0)
KEY = log_key(*LOG, YAMF)
HERE = Url("tcp", "127.0.0.1", 0)
ALL_OLD = RetentionRule(max_age_s=1)
KEEPS_TWO = "[retention]\nmax_bytes = 250\ninterval_s = 0.01\n"


def dropped(folder: OutboxedFolder, kind_is_operations: bool = False) -> list[int]:
    """The payloads that go when everything is too old."""
    read: ReadFacts = (lambda payload: None) if kind_is_operations else _none  # type: ignore[assignment, return-value]
    folder.outbox._kinds = LogKinds(folder.store, read)
    gone = retain(folder.store, ALL_OLD, 1e12, folder.outbox.may_drop_payload)
    return [seq_num for _, seq_num in gone]


def _none(payload: bytes) -> None:
    raise AssertionError("nothing is read of bare logs")


def test_no_payload_goes_before_kafka_has_it(tmp_path: Path) -> None:
    folder = OutboxedFolder(tmp_path)
    for number in (1, 2, 5):
        folder.bring(number)
    assert dropped(folder) == []
    folder.due()
    assert dropped(folder) == [1, 2, 5]
    assert list(folder.store.entries(OUTBOXED)) == [(1, 3), (5, 6)]
    folder.bring(3)
    assert dropped(folder) == []


def test_what_p2panda_needs_stays_until_it_is_published(tmp_path: Path) -> None:
    folder = OutboxedFolder(tmp_path, YASMF)
    for number in (1, 2, 4):
        folder.bring(number)
    folder.due()
    # The first tells whose log it is, and the fourth joins `entries` when the third comes.
    assert dropped(folder, kind_is_operations=True) == [2]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(KEEPS_TWO)
    return path


def record_of(store: FolderStore, seq_num: int) -> ProducerRecord:
    """What the job `logs` says of an entry."""
    entry = store.entry(LOG, seq_num)
    assert entry is not None
    payload = store.read_payload(LOG, seq_num, 0, entry.entry.payload_size)
    return ProducerRecord(
        key=KEY, value=LogRecord(seq_num, entry.entry_bytes, payload, entry.hash, "").encode()
    )


async def test_what_was_dropped_is_said_so_and_comes_back_by_no_topic_and_no_peer(
    tmp_path: Path, policy: Path
) -> None:
    async with (
        brokerless_edge(tmp_path / "edge", policy=policy) as edge,
        edge.flavour.peer.listen(HERE) as url,
    ):
        peer, topics = edge.flavour.peer, edge.topics

        async def until_dropped(count: int) -> None:
            await until(lambda: edge.metrics.payloads_dropped >= count)
            assert await peer.read(lambda store: list(store.dropped(LOG))) == [(1, count + 1)]

        async with peer_at(tmp_path / "writer", url, offering(LOG)) as writer:
            for _ in range(5):
                await writer.publish(AUTHOR, 0, bytes(100))
            await until_dropped(3)
            assert len(await topics.until("entries", 5)) == 5
            # The job `logs` says again what came by `entries`, and what is new besides.
            records = await writer.read(lambda store: [record_of(store, number) for number in range(1, 6)])
            await topics.send(KAFKA.topic("logs"), records)
            await topics.until_taken("logs")
        await writer_goes_on(tmp_path / "writer")
        async with peer_at(tmp_path / "writer", url, offering(LOG)):
            await until_dropped(4)
        async with BambooPeer.open(tmp_path / "reader", flavour=YAMF) as reader:
            dropped: list[tuple[str, int]] = []

            def listen(remote: RemotePeer, event: BambooP2pEvent) -> None:
                if isinstance(event, PayloadSkipped | PayloadVerified):
                    dropped.append((event.kind, event.seq_num))

            reader.listeners.append(listen)
            await reader.follow(FollowedLog(LOG))
            async with reader.connect(url):
                await until(lambda: len(dropped) == 6)
            assert await reader.read(lambda store: store.entries(LOG).covers(1, 7))
        assert dropped == [*(("skipped", number) for number in range(1, 5)), ("payload", 5), ("payload", 6)]
        # Nothing was taken again, and dropped a second time.
        assert (edge.metrics.payloads_dropped, edge.metrics.payload_bytes_dropped) == (4, 400)


async def writer_goes_on(folder: Path) -> None:
    """A further entry, of which nobody has heard."""
    async with BambooPeer.open(folder) as writer:
        await writer.publish(AUTHOR, 0, bytes(100))


async def test_chunks_of_a_topic_do_not_bring_back_what_was_dropped(tmp_path: Path, policy: Path) -> None:
    topics = MemoryTopics()
    large = bytes(300_000)
    async with brokerless_edge(tmp_path / "edge", topics, policy=policy) as edge:
        async with (
            edge.flavour.peer.listen(HERE) as url,
            peer_at(tmp_path / "writer", url, offering(LOG)) as writer,
        ):
            await writer.publish(AUTHOR, 0, large)
            await topics.until("payloads", 1)
            await until(lambda: edge.metrics.payloads_dropped == 1)
            # Its chunks come again, as they do when somebody else produces them.
            for value in topics.values("payloads"):
                key = YAMF.hash(large)
                await topics.send(
                    KAFKA.topic("payloads"), [ProducerRecord(key=payload_chunk_key(key, 0), value=value)]
                )
            await topics.until_taken("payloads")
            peer = edge.flavour.peer
            assert await peer.read(lambda store: not store.payloads(LOG) and not store.unverified(LOG, 1))
        assert edge.metrics.payloads_dropped == 1


async def test_a_peer_that_says_it_lacks_a_payload_is_not_known_to_hold_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "writer", YAMF)
    with store.exclusively():
        for _ in range(3):
            publish(store, AUTHOR, 0, b"payload")
        store.drop_payload(LOG, 2)
    store.close()
    async with (
        brokerless_edge(tmp_path / "edge") as edge,
        edge.flavour.peer.listen(HERE) as url,
        peer_at(tmp_path / "writer", url, offering(LOG)),
    ):
        holdings: list[HoldingRecord] = []
        while not any(holding.payloads_dropped for holding in holdings):
            holdings = [
                HoldingRecord.decode(holding)
                for holding in await edge.topics.until("holdings", len(holdings) + 1)
            ]
    (runs,) = [holding.payloads_dropped for holding in holdings if holding.payloads_dropped]
    assert [tuple(run) for run in runs] == [(2, 3)]
    assert all((2, 3) not in holding.payloads for holding in holdings)


def test_the_settings_hold_where_the_file_is_silent(tmp_path: Path) -> None:
    author = AUTHOR.public_key.hex()
    path = tmp_path / "policy.toml"
    path.write_text(f"[default]\nquota_entries = 7\n[peer.{author}]\nquota_bytes = 5\n{KEEPS_TWO}")
    settings = BambooEdgeSettings(
        policy=path, max_payload_age_s=9.0, max_payload_bytes=8, max_bytes_per_author=6, quota_bytes=0
    )
    rules = edge_rules(settings)
    assert (rules.retention.max_age_s, rules.retention.max_bytes) == (9.0, 250)
    assert rules.quotas.author_bytes == 6
    assert [(rule.quota_bytes, rule.quota_entries) for rule in (rules.default, rules.rule_for(author))] == [
        (None, 7),
        (5, 7),
    ]
    assert edge_rules(BambooEdgeSettings()).default.quota_bytes
