"""What `decode` would refuse is not written: ids and sizes come from people and peers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.errors import RecordError, TopicsError
from culm_topics.logs.consumer.entry import Selection
from culm_topics.logs.consumer.heights import LogHeights
from culm_topics.logs.records import (
    MAX_COVERAGE_RUNS,
    MAX_HOLDING_RUNS,
    MAX_PAYLOAD_BYTES,
    PAYLOAD_CHUNK_BYTES,
    CoverageRecord,
    EntryRecord,
    FragmentRecord,
    HoldingRecord,
    LogRecord,
    PayloadChunkRecord,
    ReceiptRecord,
    coverage_key,
    fragment_key,
    payload_chunk_key,
)
from culm_topics.records import (
    MAX_REJECTED_BYTES,
    MAX_REJECTED_DETAIL,
    RejectedRecord,
    log_key,
    rejection,
    version_vector_key,
)
from culm_topics.sds.keys import MAX_ID_BYTES, AckKey, channel_key, index_key, is_id, owner_key
from culm_topics.sds.records import (
    MAX_FETCH_ENTRIES,
    MAX_HINT_BYTES,
    SdsCommandRecord,
    SdsEventRecord,
    SdsFetchRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
)
from culm_topics.sds.retrieval_hints import StoreHint
from culm_topics.topic_spec import MAX_MESSAGE_BYTES
from tests.support.sds.topics import index_row

LONG = "x" * (MAX_ID_BYTES + 1)
HALF = "\ud800"
HINT = bytes(MAX_HINT_BYTES + 1)
TOKEN, KEY = bytes(16), bytes(32)
LOG = bytes(40)
HASH = b"\x00\x20" + KEY
RUNS = tuple((2 * number + 1, 2 * number + 2) for number in range(MAX_COVERAGE_RUNS + 1))


@pytest.mark.parametrize(
    "write",
    [
        lambda: channel_key(""),
        lambda: channel_key(LONG),
        lambda: channel_key(HALF),
        lambda: index_key("c", ""),
        lambda: owner_key(LONG, "a"),
        lambda: AckKey("c", "").encode(),
        lambda: log_key(KEY[1:], 0),
        lambda: version_vector_key(KEY[1:], KEY, 0),
        lambda: Selection.of(public_keys=[KEY, b""]),
        lambda: Selection.of(logs=[(b"", 0)]),
        lambda: SdsCommandRecord("join", "spec", LONG, TOKEN).encode(),
        lambda: SdsCommandRecord("join", "spec", HALF, TOKEN).encode(),
        lambda: SdsCommandRecord("join", "spec", "a", b"").encode(),
        lambda: SdsCommandRecord("send", "spec", "a", TOKEN, message_id="").encode(),
        lambda: SdsCommandRecord("join", "spec", "a", TOKEN, peer_id=b"").encode(),
        lambda: SdsCommandRecord("join", "spec", "a", TOKEN, settings={"": 1}).encode(),
        lambda: SdsCommandRecord(
            "join", "spec", "a", TOKEN, settings=dict.fromkeys(map(str, range(65)), 1)
        ).encode(),
        lambda: SdsEventRecord(0, "sent", "a", "m", 0).encode(),
        lambda: SdsEventRecord(1, "sent", LONG, "m", 0).encode(),
        lambda: SdsEventRecord(1, "sent", "a", LONG, 0).encode(),
        lambda: SdsFetchRecord("spec", (), 0).encode(),
        lambda: SdsFetchRecord("spec", (HistoryEntry("m"),) * (MAX_FETCH_ENTRIES + 1), 0).encode(),
        lambda: SdsFetchRecord("spec", (HistoryEntry(""),), 0).encode(),
        lambda: SdsFetchRecord("spec", (HistoryEntry("m", HINT),), 0).encode(),
        lambda: SdsInRecord("spec", b"", retrieval_hint=HINT).encode(),
        lambda: SdsInRecord("spec", b"", peer_id=b"").encode(),
        lambda: SdsInRecord("spec", b"", connector=b"").encode(),
        lambda: SdsMessageRecord("spec", "", "a", 1, b"").encode(),
        lambda: SdsMessageRecord("spec", "m", "a", 1, b"", HINT).encode(),
        lambda: SdsOutRecord("spec", "new", "", "m", b"").encode(),
        lambda: index_row(-1, 1).encode(),
        lambda: index_row(1, 1, LONG).encode(),
        lambda: StoreHint(2**31, 0, bytes(4)).encode(),
        lambda: StoreHint(0, 2**63, bytes(4)).encode(),
        lambda: EntryRecord(b"", b"", "s", b"", 0, TOKEN).encode(),
        lambda: EntryRecord(b"", b"", "s", KEY, 0, b"").encode(),
        lambda: LogRecord(0, b"", b"", bytes(34), "s").encode(),
        lambda: LogRecord(1, b"", b"", b"", "s").encode(),
        lambda: LogRecord(1, b"", b"", bytes(65), "s").encode(),
        lambda: ReceiptRecord(((b"", 0, 1),)).encode(),
        lambda: FragmentRecord(b"", bytes(33)).encode(),
        lambda: fragment_key(LOG[1:], 1),
        lambda: fragment_key(LOG, 0),
        lambda: fragment_key(LOG, 2**64),
        lambda: PayloadChunkRecord(0, 0, b"").encode(),
        lambda: PayloadChunkRecord(1, 0, b"").encode(),
        lambda: PayloadChunkRecord(1, 0, b"ab").encode(),
        lambda: PayloadChunkRecord(2, 1, b"b").encode(),
        lambda: PayloadChunkRecord(5, PAYLOAD_CHUNK_BYTES, b"b").encode(),
        lambda: PayloadChunkRecord(MAX_PAYLOAD_BYTES + 1, 0, bytes(PAYLOAD_CHUNK_BYTES)).encode(),
        lambda: payload_chunk_key(KEY, 0),
        lambda: payload_chunk_key(bytes(34), 0),
        lambda: payload_chunk_key(HASH, 1 << 32),
        lambda: HoldingRecord(LOG[1:]).encode(),
        lambda: HoldingRecord(LOG, RUNS[: MAX_HOLDING_RUNS + 1]).encode(),
        lambda: HoldingRecord(LOG, RUNS[:MAX_HOLDING_RUNS], RUNS[:1]).encode(),
        lambda: HoldingRecord(LOG, ((0, 1),)).encode(),
        lambda: HoldingRecord(LOG, ((1, 1),)).encode(),
        lambda: HoldingRecord(LOG, ((1, 2), (2, 3))).encode(),
        lambda: HoldingRecord(LOG, ((3, 4), (1, 2))).encode(),
        lambda: HoldingRecord(LOG, ((1, 2**64),)).encode(),
        lambda: CoverageRecord(RUNS, (), ()).encode(),
        lambda: coverage_key(KEY[1:], LOG),
        lambda: coverage_key(KEY, LOG[1:]),
        lambda: coverage_key(KEY, LOG + b"\x02"),
        lambda: RejectedRecord("topics.record", "", brought_by=b"").encode(),
    ],
)
def test_what_would_not_be_read_is_not_written(write: Callable[[], object]) -> None:
    with pytest.raises(RecordError) as refused:
        write()
    assert refused.value.code == "topics.record"


def test_half_a_character_is_no_id() -> None:
    assert not is_id(HALF)
    assert is_id("ü" * (MAX_ID_BYTES // 2))
    assert not is_id("ü" * (MAX_ID_BYTES // 2) + "x")


def test_a_topic_of_too_many_partitions_cannot_be_followed() -> None:
    with pytest.raises(TopicsError) as refused:
        LogHeights().raise_to(log_key(KEY, 0), 1, 1 << 16)
    assert refused.value.code == "topics.settings"


# Whoever refuses bytes tells it within the limits of a record: a cut of the detail, and one of the bytes.


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
