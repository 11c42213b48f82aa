"""DagConsumer on a real broker: changes of ids, resumed; blocks, files and shards out of shards in Kafka."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
from pathlib import Path

import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car import read_car, write_car
from culm_models.dag.errors import BlockMissing, PathUnknown
from culm_models.dag.publish.states import PublishState
from culm_models.dag.sharding import cut_dag
from culm_models.dag.unixfs.importing import PROFILES, import_directory
from culm_topics.dag.consumer import DagConsumer, DagContent
from culm_topics.dag.consumer.ancestry import PublishAncestry
from culm_topics.dag.consumer.dag_consumer import PUBLISHED_TOPIC
from culm_topics.dag.consumer.shard_places import ShardPlaces
from culm_topics.dag.errors import ShardHashRefused, ShardPlacesFailed
from culm_topics.dag.records import (
    NO_LINKS,
    BlockPlace,
    CompletePublish,
    PublishedRecord,
    PublishRecord,
    cid_partition,
    first_links,
    shard_index,
)
from culm_topics.dag.shard_chunks import cut_shard
from culm_topics.errors import KafkaFailure, OriginChanged
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from tests.support.kafka.failing_client import FailsOnce
from tests.support.kafka.topic_io import produce, write_records
from tests.support.process.groups import child
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka

PARTITIONS = 2
SPACE = bytes(range(32))
LARGE = random.Random(3).randbytes(3_000_000)


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS)
    admin.create(settings)
    return settings


def write_shards(settings: KafkaSettings, *shards: bytes, forged: bytes | None = None) -> None:
    """CARs as an edge produces them, and their indexes as the job does."""
    chunks: list[tuple[int, bytes | None, bytes | None]] = []
    indexes: list[tuple[int, bytes | None, bytes | None]] = []
    for data in shards:
        shard = cid_of(CAR, data)
        partition = cid_partition(shard, PARTITIONS)
        for key, chunk in cut_shard(shard, len(data), [forged or data], space=SPACE):
            chunks.append((partition, key, chunk.encode()))
        car = read_car(data)
        blocks = [BlockPlace(section.cid, section.offset, len(section.data)) for section in car.sections]
        for key, record in shard_index(shard, len(data), car.roots, blocks):
            indexes.append((partition, key, record.encode()))
    write_records(settings, "dag.shards", chunks)
    write_records(settings, "dag.shard-index", indexes)


def shard_of(block: bytes) -> bytes:
    return write_car([], [(cid_of(RAW, block), block)])


def others(start: int, count: int) -> list[bytes]:
    return [shard_of(number.to_bytes(4, "big")) for number in range(start, start + count)]


def put_directory(settings: KafkaSettings) -> Cid:
    """A directory of a large file and a small one, in shards of 1,500,000 bytes, among others."""
    blocks: dict[Cid, bytes] = {}
    root = import_directory(
        {"large": LARGE, "small": b"small"}, PROFILES["ipfs-cid-v1"], blocks.__setitem__
    ).cid
    shards = [shard.data for shard in cut_dag(root, blocks.get, 1_500_000)]
    write_shards(settings, *others(0, 30), *shards)
    write_shards(settings, *others(30, 30))
    return root


def test_files_are_read_out_of_shards(settings: KafkaSettings, tmp_path: Path) -> None:
    root = put_directory(settings)
    with DagContent(settings, state_dir=tmp_path, cache_bytes=2_000_000) as content:
        assert b"".join(content.file(f"{root}/large")) == LARGE
        assert content.file_size(f"{root}/large") == len(LARGE)
        assert b"".join(content.file(f"{root}/small")) == b"small"
        assert b"".join(content.file(f"{root}/large", 1_000_000, 1_000_010)) == LARGE[1_000_000:1_000_010]
        with pytest.raises(PathUnknown):
            content.resolve(f"{root}/none")
        with pytest.raises(BlockMissing):
            content.resolve(str(cid_of(RAW, b"nowhere")))
    with DagContent(settings, state_dir=tmp_path) as content:
        before = content.chunks_read
        assert content.block(root) is not None
        assert content.chunks_read - before <= 16
        block = (31).to_bytes(4, "big")
        assert content.block(cid_of(RAW, block)) == block


def test_a_whole_shard_is_put_together_and_one_that_was_dropped_is_not_there(settings: KafkaSettings) -> None:
    block = bytes(2_000_000)
    data = shard_of(block)
    shard = cid_of(CAR, data)
    write_shards(settings, data)
    with DagContent(settings) as content:
        assembly = content.shard(shard)
        assert assembly is not None
        with assembly:
            assert assembly.read() == data
        assert content.shard(cid_of(CAR, b"none")) is None
        partition = cid_partition(shard, PARTITIONS)
        keys = [key for key, _ in shard_index(shard, len(data), [], [])]
        write_records(settings, "dag.shard-index", [(partition, key, None) for key in keys])
        content.catch_up()
        assert content.shard(shard) is None
        assert content.block(cid_of(RAW, block)) is None


def test_bytes_that_are_not_the_block_are_refused(settings: KafkaSettings) -> None:
    data = shard_of(b"block")
    shard = cid_of(CAR, data)
    write_shards(settings, data, forged=bytes(len(data)))
    with DagContent(settings) as content:
        for _ in range(2):
            with pytest.raises(ShardHashRefused):
                content.block(cid_of(RAW, b"block"))
            with pytest.raises(ShardHashRefused):
                content.shard(shard)


def publish(number: int, prior: Cid | None = None) -> PublishRecord:
    """As much of a publish as ancestry asks for."""
    value = {"n": number} if prior is None else {"n": number, "prior": prior}
    data = encode_dag_cbor(value)
    return PublishRecord(cid_of(DAG_CBOR, data), prior, data, 0)


ID, OTHER = bytes(32), bytes([7]) * 32
A = publish(1)
B, C = publish(2, A.cid), publish(3, A.cid)
D = publish(4, C.cid)


def said(tip: PublishRecord, *, complete: Cid | None = None, revoked: tuple[Cid, ...] = ()) -> bytes:
    complete_publish = None if complete is None else CompletePublish(complete, tip.cid, tip.cid, None)
    return PublishedRecord(
        tip.cid, (tip.cid,), 1, PublishState.PENDING, NO_LINKS, first_links(revoked), complete_publish
    ).encode()


def test_changes_come_in_order_and_go_on_where_they_were(settings: KafkaSettings) -> None:
    produce(settings, "dag.publishes", [(ID, publish.encode()) for publish in (A, B, C, D)])
    produce(settings, PUBLISHED_TOPIC, [(ID, said(A, complete=A.cid)), (OTHER, said(A)), (ID, b"junk")])
    with DagConsumer(settings, ids=[ID], stop_at_end=True) as consumer:
        changes = [(change.kind.value, change.cid) for change in consumer]
        assert changes == [("tip", A.cid), ("complete", A.cid)]
        positions, origin = consumer.positions(), consumer.origin
        assert consumer.passed_over.records == 1
        assert consumer.published()[ID].tip == A.cid
    produce(
        settings,
        PUBLISHED_TOPIC,
        [(ID, said(B)), (ID, said(D, complete=D.cid)), (ID, said(D, complete=C.cid, revoked=(D.cid,)))],
    )
    kafka = settings
    with DagConsumer(kafka, ids=[ID], start_at=positions, origin=origin, stop_at_end=True) as consumer:
        changes = [(change.kind.value, change.cid) for change in consumer]
    assert changes == [
        ("tip", B.cid),
        ("superseded", B.cid),
        ("tip", D.cid),
        ("complete", D.cid),
        ("complete", C.cid),
        ("revoked", D.cid),
    ]
    with DagConsumer(kafka, stop_at_end=True) as consumer:
        assert consumer.load().keys() == {ID, OTHER}
        assert consumer.poll(0) is None


def test_positions_stay_before_changes_that_were_not_handed_out(settings: KafkaSettings) -> None:
    produce(settings, "dag.publishes", [(ID, publish.encode()) for publish in (A, B)])
    produce(settings, PUBLISHED_TOPIC, [(ID, said(A)), (ID, said(B))])
    with DagConsumer(settings) as consumer:
        first = consumer.poll(30)
        assert first is not None and first.cid == A.cid
        positions = consumer.positions()
    with DagConsumer(settings, start_at=positions, stop_at_end=True) as consumer:
        assert [change.cid for change in consumer] == [B.cid]


def test_changes_whose_ancestry_could_not_be_read_are_handed_out_later(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(settings, "dag.publishes", [(ID, publish.encode()) for publish in (A, B, C, D)])
    produce(settings, PUBLISHED_TOPIC, [(ID, said(A)), (ID, said(B)), (ID, said(D)), (OTHER, said(A))])
    catch_up = PublishAncestry.catch_up
    for start in ("load", "changes"):
        fails = FailsOnce(catch_up, KafkaFailure("the broker is away"))
        monkeypatch.setattr(PublishAncestry, "catch_up", fails)
        with DagConsumer(settings, stop_at_end=True) as consumer:
            if start == "load":
                with pytest.raises(KafkaFailure):
                    consumer.load()
                assert consumer.load()[ID].tip == D.cid
                assert consumer.published().keys() == {ID, OTHER}
                assert consumer.poll(0) is None
                continue
            changes: list[tuple[str, Cid]] = []
            while not consumer.finished:
                try:
                    changes += ((change.kind.value, change.cid) for change in consumer)
                except KafkaFailure:
                    assert sum(consumer.positions().values()) < 4
        assert fails.has_failed
        assert [each for each in changes if each[1] != A.cid] == [
            ("tip", B.cid),
            ("superseded", B.cid),
            ("tip", D.cid),
        ]
        assert changes.count(("tip", A.cid)) == 2
        assert sum(consumer.positions().values()) == 4


def test_places_that_the_file_cannot_take_are_read_again(
    settings: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(settings, *others(0, 5))
    with DagContent(settings, state_dir=tmp_path) as content:
        with monkeypatch.context() as patch:
            full = FailsOnce(ShardPlaces._take, sqlite3.OperationalError("database or disk is full"), at=3)
            patch.setattr(ShardPlaces, "_take", full)
            with pytest.raises(ShardPlacesFailed, match="full"):
                content.catch_up()
        write_shards(settings, *others(5, 1))
        content.catch_up()
        blocks = [number.to_bytes(4, "big") for number in range(6)]
        assert [content.block(cid_of(RAW, block)) for block in blocks] == blocks
    with DagContent(settings, state_dir=tmp_path) as content:
        assert [content.block(cid_of(RAW, block)) for block in blocks] == blocks


def test_positions_of_other_topics_are_refused(settings: KafkaSettings) -> None:
    with pytest.raises(OriginChanged):
        DagConsumer(settings, start_at={0: 1}, origin=Origin("elsewhere", {}))


EXAMPLE = Path(__file__).parents[3] / "examples" / "dag-consumer" / "follow.py"


def run_example(settings: KafkaSettings, folder: Path, changes: int, records: int) -> list[str]:
    """The example until it has printed so many changes and is behind so many records; killed then."""
    command = [sys.executable, str(EXAMPLE), ID.hex(), str(folder), settings.bootstrap, settings.prefix]
    cursor = folder / ".cursor.json"

    def is_behind() -> bool:
        return cursor.exists() and sum(json.loads(cursor.read_text())["positions"].values()) == records

    with child(command) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(changes)]
        asyncio.run(until(is_behind))
    return lines


def test_the_example_keeps_what_an_id_publishes_and_goes_on_after_a_kill(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    root = put_directory(settings)
    produce(settings, "dag.publishes", [(ID, publish.encode()) for publish in (A, B)])
    complete = CompletePublish(A.cid, root, A.cid, None)
    first = PublishedRecord(A.cid, (A.cid,), 1, PublishState.COMPLETE, NO_LINKS, NO_LINKS, complete)
    produce(settings, PUBLISHED_TOPIC, [(ID, first.encode())])
    assert run_example(settings, tmp_path, 2, 1) == [f"tip {A.cid}", f"complete {A.cid}"]
    assert (tmp_path / "content" / "large").read_bytes() == LARGE
    assert (tmp_path / "content" / "small").read_bytes() == b"small"
    produce(settings, PUBLISHED_TOPIC, [(ID, said(B))])
    assert run_example(settings, tmp_path, 1, 2) == [f"tip {B.cid}"]
