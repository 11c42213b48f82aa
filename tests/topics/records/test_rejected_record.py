"""Whoever refuses bytes tells it within the limits of a record: a cut of the detail, and one of the bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_topics.records import MAX_REJECTED_BYTES, MAX_REJECTED_DETAIL, RejectedRecord, rejection
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

ROOT = Path(__file__).parents[3]
SOURCE = ("culm.entries" + "x" * 237, 2**31 - 1, 2**63 - 1)


def test_the_largest_record_fits_the_topic() -> None:
    record = rejection(
        "a.code.of.some.length",
        "\N{GRINNING FACE}" * 5_000,
        entry=bytes(MAX_REJECTED_BYTES - 5),
        operation=bytes(5),
        brought_by=bytes(32),
        source=SOURCE,
        seq_num=2**64 - 1,
        first=bytes(400),
    )
    assert len(record.detail) == MAX_REJECTED_DETAIL
    assert record.entry is not None and record.operation is not None
    value = record.encode()
    assert len(value) < MAX_MESSAGE_BYTES - 1024
    assert RejectedRecord.decode(value) == record


@pytest.mark.parametrize("operation", [None, bytes(1)])
def test_larger_bytes_are_left_out_and_the_detail_says_so(operation: bytes | None) -> None:
    size = MAX_REJECTED_BYTES + 1
    entry = bytes(size - len(operation or b""))
    record = rejection("c", "x" * 5_000, entry=entry, operation=operation, source=SOURCE)
    assert (record.entry, record.operation, record.source) == (None, None, SOURCE)
    assert len(record.detail) == MAX_REJECTED_DETAIL
    assert record.detail.endswith(f" ({size} bytes, too many to be repeated here)")


def test_a_detail_that_repeats_half_a_character_can_be_written() -> None:
    record = rejection("c", "no id: \ud800")
    assert RejectedRecord.decode(record.encode()).detail == "no id: \\ud800"


def test_every_refusal_is_made_in_one_place() -> None:
    packages = ("models", "topics", "streaming", "connectors", "infra")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    makers = [path.name for path in files if "RejectedRecord(" in path.read_text()]
    assert makers == ["rejected.py"]
