"""The job `blocks` on real Spark and a real broker: replays, restarts, malformed records, what peers hold."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_models.lifts import ADD128
from culm_streaming.blocks.job import BlocksSettings
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.errors import JobError
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.errors import TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.blocks import Blocks, read_block_vectors, read_blocks
from culm_topics.logs.records import LogRecord, ReceiptRecord
from culm_topics.records import log_key
from tests.support.kafka.topic_io import end_offsets, produce, read_all, read_rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMAS = ("schema_definition_v1", "venues_0020" + "ab" * 32)
Heights = dict[tuple[str, bytes, int], int]


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(settings)
    return settings


def run_once(
    spark: SparkSession, kafka: KafkaSettings, path: Path, *, block_bits: int = 3
) -> list[BatchProgress]:
    seen: list[BatchProgress] = []
    run_jobs(
        spark,
        RunSettings(
            kafka=kafka,
            checkpoints=str(path),
            jobs=("blocks",),
            once=True,
            job_settings={
                "blocks": BlocksSettings(
                    max_offsets_per_trigger=150,
                    heights=HeightsSettings(block_bits=block_bits, chunk_rows=7, recent_rows=3),
                )
            },
        ),
        stop=Event(),
        on_progress=seen.append,
    )
    return seen


def material(seed: int, logs: int) -> tuple[list[tuple[bytes, bytes]], Heights]:
    """Records of `logs`, each log in sequence order, and how high each log then is."""
    chance = random.Random(seed)
    heights: Heights = {}
    for _ in range(logs):
        heights[chance.choice(SCHEMAS), chance.randbytes(32), chance.randrange(3)] = chance.randint(1, 6)
    records = [
        (log_key(public_key, log_id), LogRecord(seq_num, b"e", b"o", bytes(34), schema_id).encode())
        for (schema_id, public_key, log_id), height in heights.items()
        for seq_num in range(1, height + 1)
    ]
    return records, heights


def assert_blocks(kafka: KafkaSettings, heights: Heights) -> Blocks:
    """The topic says what a plain dictionary says, whole blocks and nothing else."""
    blocks = read_blocks(kafka)
    assert not blocks.torn
    by_block: dict[tuple[str, int], list[tuple[bytes, int, int]]] = {}
    for (schema_id, public_key, log_id), seq_num in sorted(heights.items()):
        by_block.setdefault((schema_id, public_key[0] >> 5), []).append((public_key, log_id, seq_num))
    assert {
        (block.schema_id, block.block): packed(by_block[block.schema_id, block.block]) for block in blocks
    } == {(block.schema_id, block.block): block.heights for block in blocks}
    assert len(blocks) == len(by_block)
    for block in blocks:
        rows = by_block[block.schema_id, block.block]
        assert block.fingerprints == {"add128": ADD128.fingerprint(rows)[1:]}
        assert (block.log_count, block.entry_count) == (len(rows), sum(row[2] for row in rows))
    assert blocks.applied == {number: end for number, end in end_offsets(kafka, "logs").items() if end}
    return blocks


def packed(rows: Iterable[tuple[bytes, int, int]]) -> bytes:
    return b"".join(log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows)


def test_blocks_follow_the_logs_over_restarts_and_a_replay_of_the_topic_changes_nothing(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    records, heights = material(1, 60)
    produce(kafka, "logs", records[:100])
    run_once(spark, kafka, tmp_path)
    produce(kafka, "logs", records[100:])
    produce(kafka, "logs", [(b"k", b"junk"), (records[0][0], None)])
    seen = run_once(spark, kafka, tmp_path)
    assert sum(progress.rejected for progress in seen) == 2
    first = assert_blocks(kafka, heights)
    assert [(record.code, record.entry) for record in read_rejected(kafka)].count(
        ("topics.record", b"junk")
    ) == 1
    assert len(read_rejected(kafka)) == 2

    # The job `logs` may write a batch once more, behind later ones.
    produce(kafka, "logs", records)
    run_once(spark, kafka, tmp_path)
    again = assert_blocks(kafka, heights)
    assert [block.version for block in again] == [block.version for block in first]

    # A new checkpoint builds the same from the beginning, over what is there.
    run_once(spark, kafka, tmp_path / "anew")
    assert_blocks(kafka, heights)


def test_what_peers_hold_is_kept_by_block_beside_it(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    chance = random.Random(3)
    peers = [bytes([number] * 32) for number in (1, 2)]
    keys = [chance.randbytes(32) for _ in range(40)]
    peer_heights: dict[bytes, dict[bytes, int]] = {peer: {} for peer in peers}
    for _ in range(2):
        receipts = []
        for _ in range(10):
            peer, heights = (
                chance.choice(peers),
                {key: chance.randint(1, 9) for key in chance.sample(keys, 9)},
            )
            for key, seq_num in heights.items():
                peer_heights[peer][key] = max(seq_num, peer_heights[peer].get(key, 0))
            receipts.append((peer, ReceiptRecord(tuple((key, 7, n) for key, n in heights.items())).encode()))
        produce(kafka, "receipts", [*receipts, (b"short", b"junk")])
        run_once(spark, kafka, tmp_path)
    block_vectors = read_block_vectors(kafka)
    assert not block_vectors.torn
    for peer in peers:
        rows = sorted((key, 7, seq_num) for key, seq_num in peer_heights[peer].items())
        assert b"".join(block.heights for block in block_vectors if block.peer_id == peer) == packed(rows)
    only = read_block_vectors(kafka, [peers[1]])
    assert {block.peer_id for block in only} == {peers[1]}
    assert not read_blocks(kafka).blocks


def test_records_of_other_block_bits_are_left_over_and_passed_over(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    records, heights = material(2, 30)
    produce(kafka, "logs", records[:40])
    run_once(spark, kafka, tmp_path / "former", block_bits=1)
    produce(kafka, "logs", records[40:])
    with pytest.raises(JobError, match="blocks of 1 bits in 3 shards"):
        run_once(spark, kafka, tmp_path / "former", block_bits=3)
    run_once(spark, kafka, tmp_path / "now", block_bits=3)
    blocks = assert_blocks(kafka, heights)
    assert blocks.block_bits == 3
    assert read_blocks(kafka, block_bits=1).blocks


def test_a_shard_writes_its_own_partition_with_its_progress_last(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    records, _ = material(4, 30)
    produce(kafka, "logs", records)
    run_once(spark, kafka, tmp_path)
    keys = [key for key, _ in read_all(kafka, "blocks") if key is not None]
    progress = [key for key in keys if key[0] == 2]
    assert {int.from_bytes(key[2:], "big") for key in progress} == {0, 1, 2}
    assert all(end_offsets(kafka, "blocks").values())


def test_the_job_says_so_when_its_topics_are_missing(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    with pytest.raises(TopicMissing, match="do not exist"):
        run_once(spark, KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix), tmp_path)
