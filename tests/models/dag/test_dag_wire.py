"""Messages (reference 6): their form, and streams of frames cut anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.varint import write_varint
from culm_models.dag.errors import DagError
from culm_models.dag.wire.codec import DagMessageReader, decode_message, encode_message, frame_of
from culm_models.dag.wire.messages import (
    CHUNK_SIZE,
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)
from tests.models.dag.drawn_values import CIDS, VALUES
from tests.models.dag.recorded import recorded

SPACE = bytes(32)
SHARD = cid_of(CAR, b"")
LINKS = st.lists(CIDS, max_size=3).map(tuple)
SIZES = st.integers(1, 134_217_728)
CODES = st.sampled_from([(0, None), (1, None), (2, "dag.hash"), (3, None), (4, None), (4, "quota")])
RANGES = st.tuples(st.integers(0, 100).map(lambda n: n * CHUNK_SIZE), st.integers(1, (1 << 64) - 1))
MESSAGES: st.SearchStrategy[DagMessage] = st.one_of(
    st.builds(
        DagHello,
        st.integers(1_000, 1_000_000),
        st.lists(st.just(SPACE), max_size=3).map(tuple),
        st.sampled_from(["bound", "bearer"]),
        st.binary(min_size=32, max_size=32),
    ),
    st.builds(
        DagOffer, st.just(SPACE), LINKS, LINKS, st.lists(st.tuples(CIDS, SIZES), max_size=3).map(tuple)
    ),
    st.builds(
        DagWant,
        st.just(SPACE),
        LINKS,
        st.lists(st.tuples(CIDS, st.lists(RANGES, max_size=3).map(tuple)), max_size=3).map(tuple),
    ),
    st.builds(DagCancel, st.just(SPACE), LINKS),
    st.builds(DagBlocks, st.just(SPACE), st.lists(st.binary(max_size=20), max_size=3).map(tuple)),
    st.binary(min_size=1, max_size=50).map(lambda data: DagChunk(SPACE, SHARD, len(data), 0, data)),
    st.builds(
        DagAck,
        st.just(SPACE),
        st.lists(st.builds(lambda cid, code: (cid, *code), CIDS, CODES), max_size=3).map(tuple),
    ),
    st.builds(DagDone, st.just(SPACE), LINKS, st.none() | CIDS),
)


def code(value: Any) -> str:
    with pytest.raises(DagError) as caught:
        decode_message(encode_dag_cbor(value))
    return caught.value.code


@given(MESSAGES)
def test_a_message_comes_back(message: DagMessage) -> None:
    assert decode_message(encode_message(message)) == message


def streamed(pieces: list[bytes]) -> tuple[list[DagMessage], str | None, int]:
    reader, messages = DagMessageReader(), []
    try:
        for piece in pieces:
            messages += reader.feed(piece)
        reader.feed(b"")
    except DagError as error:
        return messages, error.code, reader.used
    return messages, None, reader.used


@given(st.lists(MESSAGES, max_size=3), st.data())
@settings(max_examples=40)
def test_a_stream_answers_alike_wherever_it_is_cut(messages: list[DagMessage], draw: Any) -> None:
    data = bytearray(b"".join(map(frame_of, messages)))
    if data and draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    whole = bytes(data)
    expected = streamed([whole])
    assert streamed([whole[at : at + 1] for at in range(len(whole))]) == expected
    for at in range(len(whole)):
        assert streamed([whole[:at], whole[at:]]) == expected


@given(MESSAGES)
def test_a_frame_cut_short_is_left(message: DagMessage) -> None:
    frame = frame_of(message)
    for end in range(len(frame)):
        assert streamed([frame + frame[:end]]) == ([message], None, len(frame))


@given(VALUES | st.lists(st.integers(0, 8) | VALUES, max_size=6))
def test_other_values_are_refused_with_a_code(value: Any) -> None:
    try:
        decode_message(encode_dag_cbor(value))
    except DagError as error:
        assert error.code == "dag.schema"


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        [8, SPACE],
        [-1, SPACE],
        [True, SPACE, [], [], []],
        ["0"],
        [0, 2, 1000, [], "bound", SPACE],
        [0, 1, 999, [], "bound", SPACE],
        [0, 1, 1_000_001, [], "bound", SPACE],
        [0, 1, True, [], "bound", SPACE],
        [0, 1, 1000, [b""], "bound", SPACE],
        [0, 1, 1000, [], "Bound", SPACE],
        [0, 1, 1000, [], [], SPACE],
        [0, 1, 1000, [], "bound", b""],
        [0, 1, 1000, [], "bound", SPACE, 1],
        [1, SPACE, [], [], [[SHARD, 0]]],
        [1, SPACE, [], [], [[SHARD, (128 << 20) + 1]]],
        [1, SPACE, [], [], [[SHARD]]],
        [1, SPACE, ["x"], [], []],
        [2, SPACE, [], [[SHARD, [[1, 1]]]]],
        [2, SPACE, [], [[SHARD, [[0, 0]]]]],
        [2, SPACE, [], [[SHARD, [[-CHUNK_SIZE, 1]]]]],
        [3, SPACE, [SHARD.raw]],
        [3, SPACE[1:], []],
        [4, SPACE, ["x"]],
        [5, SPACE, SHARD, 1, 0, b""],
        [5, SPACE, SHARD, 1, 0, b"xx"],
        [5, SPACE, SHARD, CHUNK_SIZE, CHUNK_SIZE, b""],
        [5, SPACE, SHARD, CHUNK_SIZE + 1, 1, bytes(CHUNK_SIZE)],
        [6, SPACE, [[SHARD, 5, None]]],
        [6, SPACE, [[SHARD, 2, None]]],
        [6, SPACE, [[SHARD, 0, "x"]]],
        [6, SPACE, [[SHARD, 4, 1]]],
        [7, SPACE, [], "x"],
    ],
)
def test_the_form_of_messages(value: Any) -> None:
    assert code(value) == "dag.schema"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (write_varint(1_000_001), "frame_too_large"),
        (b"\x80\x00", "varint"),
        (b"\xff" * 9, "varint"),
        (b"\0", "non_canonical"),
        (b"\x02\x80\x80", "non_canonical"),
    ],
)
def test_frames_that_end_the_stream(data: bytes, expected: str) -> None:
    good = frame_of(DagCancel(SPACE, ()))
    assert streamed([good + data]) == ([DagCancel(SPACE, ())], f"dag.{expected}", len(good))
    reader = DagMessageReader()
    for _ in range(2):
        with pytest.raises(DagError):
            reader.feed(data)


def test_a_frame_of_the_other_end_s_size() -> None:
    message = DagBlocks(SPACE, (bytes(2000),))
    with pytest.raises(DagError) as caught:
        frame_of(message, 1000)
    assert caught.value.code == "dag.frame_too_large"
    largest = DagChunk(SPACE, SHARD, 2 * CHUNK_SIZE, CHUNK_SIZE, bytes(CHUNK_SIZE))
    assert streamed([frame_of(largest)])[0] == [largest]
    with pytest.raises(DagError):
        encode_message(replace(largest, size=0))


def named(rows: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


@named(recorded("messages")["valid"])
def test_recorded_messages(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["bytes"])
    messages, error, used = streamed([data])
    assert (error, used) == (None, len(data))
    assert b"".join(map(frame_of, messages)) == data
    assert all(isinstance(cid, Cid) for message in messages for cid in getattr(message, "dag_heads", ()))
