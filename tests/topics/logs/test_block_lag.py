"""How a peer stands to each block, against comparing every log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.lifts import ADD128
from culm_topics.errors import RecordError
from culm_topics.logs.block_lag import BlockLag, block_lags, lags_in_block, total_fingerprints
from culm_topics.logs.blocks import Block, Blocks
from culm_topics.logs.records import block_of
from culm_topics.records import log_key

BITS = 2
PEER = bytes([9] * 32)
SCHEMAS = ("a", "b")
Heights = Mapping[tuple[bytes, int], int]

public_keys = st.integers(0, 15).map(lambda number: bytes((number << 4,)) + bytes(31))
logs = st.tuples(public_keys, st.integers(0, 1))
heights = st.dictionaries(logs, st.integers(1, 3), max_size=12)


def blocks(sets: Mapping[bytes, Heights], *, lift: bool = True) -> Blocks:
    made = []
    for name, known in sorted(sets.items()):
        for number in range(1 << BITS):
            rows = [(*log, n) for log, n in sorted(known.items()) if block_of(log[0], BITS) == number]
            if rows:
                packed = b"".join(log_key(key, log_id) + n.to_bytes(8, "big") for key, log_id, n in rows)
                fingerprints = {"add128": ADD128.fingerprint(rows)[1:]} if lift else {}
                entries = sum(row[2] for row in rows)
                made.append(Block(name, BITS, number, (), len(rows), entries, fingerprints, packed))
    return Blocks(BITS, tuple(made), {}, (), 0)


def by_schema(everything: Heights) -> dict[bytes, dict[tuple[bytes, int], int]]:
    """A log belongs to one schema: here its log id says to which."""
    return {
        schema.encode(): {log: n for log, n in everything.items() if log[1] == number}
        for number, schema in enumerate(SCHEMAS)
    }


@given(heights, st.lists(heights, max_size=3), st.booleans())
def test_lags_in_one_block_are_those_of_all_blocks(
    everything: Heights, others: list[Heights], lift: bool
) -> None:
    own = blocks(by_schema(everything), lift=lift)
    peers = {bytes([number] * 32): dict(other) for number, other in enumerate([*others, everything])}
    vectors = blocks(peers, lift=lift)
    lags = [
        lag
        for number in range(1 << BITS)
        for lag in lags_in_block(
            [block for block in own if block.block == number],
            [vector for vector in vectors if vector.block == number],
        )
    ]
    assert sorted(lags, key=repr) == sorted(block_lags(own, vectors), key=repr)


@given(heights, heights, st.booleans(), st.booleans())
def test_standings_are_what_comparing_every_log_says(
    everything: Heights, other: Heights, same: bool, lift: bool
) -> None:
    peer_heights = everything if same else other
    lags = list(block_lags(blocks(by_schema(everything), lift=lift), blocks({PEER: peer_heights}, lift=lift)))
    expected = []
    for number in range(1 << BITS):
        for schema, known in by_schema(everything).items():
            inside = {log: n for log, n in known.items() if block_of(log[0], BITS) == number}
            behind = [n - peer_heights[log] for log, n in inside.items() if log in peer_heights]
            if behind:
                lacks = [n for n in behind if n > 0]
                expected.append(
                    BlockLag(
                        PEER,
                        schema.decode(),
                        number,
                        len(inside),
                        sum(inside.values()),
                        len(behind),
                        len(lacks),
                        sum(lacks),
                    )
                )
    assert lags == expected


def test_a_peer_of_one_schema_equals_that_schema_alone() -> None:
    everything = {(bytes(32), 0): 3, (bytes(32), 1): 2}
    (stand,) = block_lags(blocks(by_schema(everything)), blocks({PEER: {(bytes(32), 1): 2}}))
    assert (stand.schema_id, stand.equal) == ("b", True)


def test_a_peer_that_is_behind_or_lacks_logs_is_not_equal() -> None:
    everything = {(bytes(32), 0): 3, (bytes(31) + b"\1", 0): 1}
    for peer_heights in ({(bytes(32), 0): 3}, {**everything, (bytes(32), 0): 2}):
        (stand,) = block_lags(blocks(by_schema(everything)), blocks({PEER: peer_heights}))
        assert not stand.equal


def test_blocks_of_other_bits_are_not_compared() -> None:
    own = blocks({b"a": {(bytes(32), 0): 1}})
    others = Blocks(BITS + 1, own.blocks, {}, (), 0)
    with pytest.raises(RecordError):
        list(block_lags(own, others))


@given(heights)
def test_fingerprints_of_blocks_add_up_to_those_of_the_schema(everything: Heights) -> None:
    schema_blocks = blocks({b"a": everything})
    if len(schema_blocks):
        rows = [(*log, n) for log, n in sorted(everything.items())]
        assert total_fingerprints(schema_blocks) == {"add128": ADD128.fingerprint(rows)[1:]}
    else:
        assert total_fingerprints(schema_blocks) == {}
