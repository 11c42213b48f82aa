"""The topic `blocks` as its job would write it, from what a test says that `logs` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xxhash import xxh64_intdigest

from culm_models.lifts import DEFAULT, pack
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.messages import LogHeight
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.blocks import Block, Blocks
from culm_topics.logs.records import (
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    ProgressKey,
)
from culm_topics.logs.records.blocks import Offsets, block_of

BITS = 4


def heights_of(*logs: Sequence[CheckedOperation]) -> list[LogHeight]:
    """The height of each log."""
    return [(*log[0].log, log[-1].entry.seq_num) for log in logs]


def told_blocks(
    by_schema: Mapping[str, Sequence[LogHeight]], version: Offsets, block_bits: int = BITS
) -> Blocks:
    """These heights as `read_blocks` would give them."""
    blocks = []
    for schema_id, heights in by_schema.items():
        for number in sorted({block_of(public_key, block_bits) for public_key, _, _ in heights}):
            rows = sorted(row for row in heights if block_of(row[0], block_bits) == number)
            lanes = DEFAULT.total(DEFAULT.lanes(row) for row in rows)
            blocks.append(
                Block(
                    schema_id.encode(),
                    block_bits,
                    number,
                    version,
                    len(rows),
                    sum(row[2] for row in rows),
                    {DEFAULT.name: DEFAULT.value(lanes)},
                    b"".join(map(pack, rows)),
                )
            )
    return Blocks(block_bits, tuple(blocks), dict(version), (), len(blocks))


def write_blocks(
    kafka: KafkaSettings,
    by_schema: Mapping[str, Sequence[LogHeight]],
    version: Offsets,
    block_bits: int = BITS,
) -> None:
    """Put these heights on the topic `blocks`: chunks, summaries, and the progress of its one shard."""
    writer = producer(kafka)

    def put(key: bytes, value: bytes) -> None:
        writer.produce(kafka.topic("blocks"), value, key, 0)

    for block in told_blocks(by_schema, version, block_bits):
        digest = xxh64_intdigest(block.heights)
        block_key = BlockKey(BlockKind.HEIGHTS, block_bits, block.block, block.name)
        put(block_key.encode(), BlockHeights(block.heights).encode())
        summary = BlockSummary(
            version,
            block.log_count,
            block.entry_count,
            tuple(block.fingerprints.items()),
            chunks=(digest,),
        )
        put(BlockKey(BlockKind.SUMMARY, block_bits, block.block, block.name).encode(), summary.encode())
    put(ProgressKey(block_bits, 0).encode(), BlockProgress(1, version).encode())
    assert writer.flush(20) == 0
