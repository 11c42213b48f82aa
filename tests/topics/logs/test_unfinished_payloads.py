"""Many payloads that come in chunks at a time: whole ones once, within bounds, whatever lies between them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF
from culm_topics.errors import PayloadHashRefused, PayloadTooLarge
from culm_topics.logs.payload_chunks import DEFAULT_MAX_PAYLOAD_BYTES, cut_payload
from culm_topics.logs.records import PAYLOAD_CHUNK_BYTES, PayloadChunkRecord
from culm_topics.logs.unfinished_payloads import MAX_UNFINISHED, UnfinishedPayloads

CHUNK = PAYLOAD_CHUNK_BYTES


def chunks_of(payload: bytes) -> list[PayloadChunkRecord]:
    return [record for _, record in cut_payload(YAMF.hash(payload), len(payload), [payload])]


def unfinished(max_bytes: int = 1 << 30) -> UnfinishedPayloads:
    return UnfinishedPayloads(DEFAULT_MAX_PAYLOAD_BYTES, max_bytes)


@given(st.randoms(), st.lists(st.integers(1, 3 * CHUNK), min_size=1, max_size=4))
def test_payloads_between_each_other_come_whole_and_once(order: random.Random, sizes: list[int]) -> None:
    payloads = {YAMF.hash(data): data for data in (random.Random(size).randbytes(size) for size in sizes)}
    chunks = [(name, record) for name, data in payloads.items() for record in chunks_of(data)]
    chunks += order.sample(chunks, len(chunks))
    whole: dict[bytes, bytes] = {}
    among = unfinished()
    for offset, (name, record) in enumerate(chunks):
        if (payload := among.add(name, record, 0, offset)) is not None:
            with payload:
                assert payload.payload_hash not in whole
                whole[payload.payload_hash] = payload.read()
    assert whole == payloads
    assert (len(among), among.held_bytes, among.positions({0: len(chunks)})) == (0, 0, {0: len(chunks)})


def test_reading_resumes_at_the_first_chunk_of_what_is_unfinished() -> None:
    among = unfinished()
    one, two = bytes(2 * CHUNK), bytes(3 * CHUNK)
    among.add(YAMF.hash(one), chunks_of(one)[0], 0, 5)
    among.add(YAMF.hash(two), chunks_of(two)[0], 1, 7)
    assert among.positions({0: 9, 1: 9, 2: 9}) == {0: 5, 1: 7, 2: 9}
    assert among.add(YAMF.hash(one), chunks_of(one)[1], 0, 9) is not None
    assert among.positions({0: 10, 1: 9, 2: 9}) == {0: 10, 1: 7, 2: 9}
    among.close()


def test_a_chunk_that_lies_about_the_size_spoils_nothing() -> None:
    among = unfinished()
    payload = bytes(CHUNK + 1)
    name = YAMF.hash(payload)
    assert among.add(name, PayloadChunkRecord(CHUNK + 2, CHUNK, b"xy"), 0, 0) is None
    assert [among.add(name, record, 0, 1) is not None for record in chunks_of(payload)] == [False, True]
    assert (len(among), among.held_bytes) == (0, 0)


def test_forged_chunks_are_let_go_and_the_payload_may_come_again() -> None:
    among = unfinished()
    name = YAMF.hash(b"abc")
    with pytest.raises(PayloadHashRefused):
        among.add(name, PayloadChunkRecord(3, 0, b"abd"), 0, 0)
    assert (len(among), among.held_bytes) == (0, 0)
    assert among.add(name, PayloadChunkRecord(3, 0, b"abc"), 0, 1) is not None


def test_what_is_too_large_is_not_begun() -> None:
    among = UnfinishedPayloads(2, 1 << 30)
    with pytest.raises(PayloadTooLarge):
        among.add(YAMF.hash(b"abc"), PayloadChunkRecord(3, 0, b"abc"), 0, 0)
    assert len(among) == 0


def test_above_its_bounds_what_was_begun_first_is_given_up() -> None:
    among = unfinished(max_bytes=2 * CHUNK)
    payloads = [bytes([number]) * (2 * CHUNK) for number in range(3)]
    for payload in payloads:
        among.add(YAMF.hash(payload), chunks_of(payload)[0], 0, 0)
    assert among.take_given_up() == [YAMF.hash(payloads[0])] and among.take_given_up() == []
    assert (len(among), among.held_bytes) == (2, 2 * CHUNK)
    among.close()
    many = unfinished()
    for number in range(MAX_UNFINISHED + 3):
        many.add(YAMF.hash(b"%d" % number), PayloadChunkRecord(CHUNK + 1, CHUNK, b"x"), 0, number)
    assert len(many) == MAX_UNFINISHED
    assert many.take_given_up() == [YAMF.hash(b"%d" % number) for number in range(3)]
    many.close()
