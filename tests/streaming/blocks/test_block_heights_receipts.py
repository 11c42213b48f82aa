"""Receipts in the job `blocks`: what every peer holds, by block."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from culm_models.lifts import ADD128
from culm_streaming.blocks.packing import in_pieces, marks_of, pack_receipts
from culm_streaming.blocks.rows import Source
from culm_topics.records import log_key
from tests.support.heights import LAYOUT, PEERS, World


def test_what_peers_hold_becomes_a_vector_by_block() -> None:
    world = World()
    chance = random.Random(5)
    keys = [chance.randbytes(32) for _ in range(50)]
    held: dict[bytes, dict[tuple[bytes, int], int]] = {peer: {} for peer in PEERS}
    for number in range(4):
        receipts = []
        for offset in range(6):
            peer = chance.choice(PEERS)
            heights = tuple((key, 0, chance.randrange(9)) for key in chance.sample(keys, 10))
            for key, log_id, seq_num in heights:
                known = held[peer].get((key, log_id), 0)
                if seq_num > known:
                    held[peer][key, log_id] = seq_num
            receipts.append((peer, heights, 0, number * 6 + offset))
        marks = marks_of(
            Source.RECEIPTS, pa.array([0] * 6, pa.int32()), pa.array(range(number * 6, number * 6 + 6))
        )
        world.take(pack_receipts(receipts, marks, LAYOUT))
    found = world.table(Source.RECEIPTS).blocks()
    assert found.applied == {0: 24}
    for peer in PEERS:
        rows = sorted((*log, seq_num) for log, seq_num in held[peer].items())
        assert b"".join(block.heights for block in found if block.peer_id == peer) == b"".join(
            log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows
        )
        lanes = ADD128.total(
            ADD128.read_value(block.fingerprints["add128"]) for block in found if block.peer_id == peer
        )
        assert ADD128.value(lanes) == ADD128.fingerprint(rows)[1:]
    assert not world.written[Source.LOGS]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_receipts_are_packed_in_pieces_of_a_bounded_size(sizes: list[int]) -> None:
    receipts = [(PEERS[0], [(bytes(32), 0, 1)] * size, 0, offset) for offset, size in enumerate(sizes)]
    pieces = list(in_pieces(receipts, most=5))
    assert [receipt for piece in pieces for receipt in piece] == receipts
    assert all(sum(len(receipt[1]) for receipt in piece[:-1]) < 5 for piece in pieces)
