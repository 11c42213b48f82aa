"""Our retrieval hint: 17 bytes that lead to one record, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.sds.records import SdsIndexRecord, check_of
from culm_topics.sds.retrieval_hints import HINT_SIZE, StoreHint

hints = st.builds(
    StoreHint, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.binary(min_size=4, max_size=4)
)


def test_a_hint_has_this_layout() -> None:
    hint = StoreHint.of(3, 258, b"wire").encode()
    assert hint == bytes.fromhex("4b 00000003 0000000000000102") + check_of(b"wire")
    assert len(hint) == HINT_SIZE == 17


@given(hints)
def test_a_hint_is_read_as_it_was_written(hint: StoreHint) -> None:
    assert StoreHint.parse(hint.encode()) == hint


@given(st.binary(max_size=40))
def test_only_what_we_write_is_taken_for_a_hint_of_ours(raw: bytes) -> None:
    hint = StoreHint.parse(raw)
    assert hint is None or hint.encode() == raw


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        bytes(32),  # Waku's
        bytes(17),
        b"\x4b" + bytes(15),
        b"\x4b" + bytes(17),
        b"\x4b\x80" + bytes(15),  # no such partition
        b"\x4b" + bytes(4) + b"\x80" + bytes(11),  # no such offset
    ],
)
def test_other_bytes_are_no_hint_of_ours(raw: bytes | None) -> None:
    assert StoreHint.parse(raw) is None


def test_a_row_of_the_index_gives_the_hint_that_the_message_itself_gives() -> None:
    row = SdsIndexRecord(3, 258, 1, "ann", 4, check_of(b"wire"))
    assert StoreHint.of_index(row) == StoreHint.of(3, 258, b"wire")
