"""Payloads in chunks: cut and put together they are what they were, many at a time, within bounds."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.errors import PayloadChunkRefused, PayloadHashRefused, PayloadTooLarge, RecordError
from culm_topics.logs.payload_chunks import DEFAULT_MAX_PAYLOAD_BYTES, PayloadAssembly, cut_payload
from culm_topics.logs.records import PAYLOAD_CHUNK_BYTES, PayloadChunkRecord, decode_payload_chunk
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
    first, second = bytes(2 * CHUNK), bytes(3 * CHUNK)
    among.add(YAMF.hash(first), chunks_of(first)[0], 0, 5)
    among.add(YAMF.hash(second), chunks_of(second)[0], 1, 7)
    assert among.positions({0: 9, 1: 9, 2: 9}) == {0: 5, 1: 7, 2: 9}
    assert among.add(YAMF.hash(first), chunks_of(first)[1], 0, 9) is not None
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
    assert among.take_abandoned() == [YAMF.hash(payloads[0])] and among.take_abandoned() == []
    assert (len(among), among.held_bytes) == (2, 2 * CHUNK)
    among.close()
    many = unfinished()
    for number in range(MAX_UNFINISHED + 3):
        many.add(YAMF.hash(b"%d" % number), PayloadChunkRecord(CHUNK + 1, CHUNK, b"x"), 0, number)
    assert len(many) == MAX_UNFINISHED
    assert many.take_abandoned() == [YAMF.hash(b"%d" % number) for number in range(3)]
    many.close()


# Payloads in chunks: cut and put together they are what they were; what is forged is refused by its code.


sizes = st.sampled_from(
    [1, 7, PAYLOAD_CHUNK_BYTES - 1, PAYLOAD_CHUNK_BYTES, PAYLOAD_CHUNK_BYTES + 1, 2_000_000]
)


def payload_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@given(sizes, st.sampled_from([YASMF, YAMF]), st.lists(st.integers(0, 2_000_000), max_size=5), st.randoms())
def test_a_payload_comes_back_whatever_its_parts_and_the_order_of_its_chunks(
    size: int, flavour: HashFlavour, cuts: list[int], order: random.Random
) -> None:
    payload = payload_of(size)
    payload_hash = flavour.hash(payload)
    places = [0, *sorted(min(cut, size) for cut in cuts), size]
    parts = [payload[low:high] for low, high in pairwise(places)]
    records = [(key, record.encode()) for key, record in cut_payload(payload_hash, size, parts)]
    order.shuffle(records)
    with PayloadAssembly(payload_hash, size) as assembly:
        for count, (key, value) in enumerate([*records, *records], 1):
            named, record = decode_payload_chunk(key, value)
            assert named == payload_hash
            assert assembly.add(record) == (count >= len(records))
        assert assembly.is_whole and assembly.read() == payload and assembly.missing() == []


def test_what_has_not_come_is_named() -> None:
    size = 5 * PAYLOAD_CHUNK_BYTES + 3
    payload = payload_of(size)
    chunks = [record for _, record in cut_payload(YAMF.hash(payload), size, [payload])]
    with PayloadAssembly(YAMF.hash(payload), size) as assembly:
        assert assembly.missing() == [(0, 6)]
        assembly.add(chunks[5])
        assembly.add(chunks[2])
        assert assembly.missing() == [(0, 2), (3, 5)]
        assert (assembly.held_bytes, assembly.is_whole) == (PAYLOAD_CHUNK_BYTES + 3, False)


def test_the_empty_payload_has_no_chunk() -> None:
    assert list(cut_payload(YASMF.hash(b""), 0, [])) == []
    with PayloadAssembly(YASMF.hash(b""), 0) as assembly:
        assert assembly.is_whole and assembly.read() == b"" and assembly.missing() == []
    with PayloadAssembly(YASMF.hash(b"x"), 0) as other:
        assert not other.is_whole


@pytest.mark.parametrize("parts", [[], [b"ab"], [b"abc", b"d"], [bytes(PAYLOAD_CHUNK_BYTES + 4)]])
def test_parts_that_are_not_the_payload_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(PayloadChunkRefused) as refused:
        list(cut_payload(YASMF.hash(b"abc"), 3, parts))
    assert refused.value.code == "topics.payload_chunk"


def test_a_payload_above_the_limit_is_refused_before_its_first_byte() -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        PayloadAssembly(YASMF.hash(b"abc"), 3, max_bytes=2)
    assert refused.value.code == "topics.payload_size" and refused.value.hint is not None


def test_a_name_that_is_no_hash_is_refused() -> None:
    with pytest.raises(RecordError):
        PayloadAssembly(bytes(34), 3)
    with pytest.raises(RecordError):
        list(cut_payload(bytes(34), 1, [b"x"]))


def test_a_chunk_of_another_size_is_refused_and_costs_only_itself() -> None:
    with PayloadAssembly(YASMF.hash(b"abc"), 3) as assembly:
        with pytest.raises(PayloadChunkRefused):
            assembly.add(PayloadChunkRecord(4, 0, b"abcd"))
        assert assembly.add(PayloadChunkRecord(3, 0, b"abc"))


def test_forged_chunks_are_refused_and_good_ones_begin_anew() -> None:
    with PayloadAssembly(YASMF.hash(b"abc"), 3) as assembly:
        with pytest.raises(PayloadHashRefused) as refused:
            assembly.add(PayloadChunkRecord(3, 0, b"abd"))
        assert refused.value.code == "topics.payload_hash"
        assert (assembly.is_whole, assembly.held_bytes, assembly.missing()) == (False, 0, [(0, 1)])
        assert assembly.add(PayloadChunkRecord(3, 0, b"abc"))
        assert assembly.read() == b"abc"
