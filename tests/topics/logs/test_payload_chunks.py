"""Payloads in chunks: cut and put together they are what they were; what is forged is refused by its code."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.errors import PayloadChunkRefused, PayloadHashRefused, PayloadTooLarge, RecordError
from culm_topics.logs.payload_chunks import PayloadAssembly, cut_payload
from culm_topics.logs.records import PAYLOAD_CHUNK_BYTES, PayloadChunkRecord, decode_payload_chunk

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
