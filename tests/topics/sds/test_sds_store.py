"""`SdsStore` on the real broker: messages by id and by hint, and nothing that is not what was asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.at_offsets import runs
from culm_topics.sds import store as sds_store
from culm_topics.sds.index import SdsIndex
from culm_topics.sds.keys import channel_key, shard_of
from culm_topics.sds.records import SdsIndexRecord
from culm_topics.sds.retrieval_hints import StoreHint
from culm_topics.sds.store import NEAR_RECORDS, SdsStore
from tests.support.sds.topics import PARTITIONS, message_of, sds_settings, store, write, write_index

pytestmark = pytest.mark.kafka

CHANNEL = "general"
COUNT = 300


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "sds.index", "sds.messages")


@pytest.fixture
def rows(settings: KafkaSettings) -> dict[str, SdsIndexRecord]:
    """A filled store: the rows of its messages by id."""
    return dict(store(settings, CHANNEL, [message_of(f"m{number}", number) for number in range(COUNT)]))


@pytest.fixture
def index(settings: KafkaSettings, rows: dict[str, SdsIndexRecord], tmp_path: Path) -> Iterator[SdsIndex]:
    write_index(settings, CHANNEL, rows.items())
    with SdsIndex(settings, tmp_path / "index.sqlite", channels=[CHANNEL]) as index:
        index.catch_up()
        yield index


def test_messages_are_found_by_their_ids(settings: KafkaSettings, index: SdsIndex) -> None:
    with SdsStore(settings, index) as messages:
        got = messages.by_ids(CHANNEL, ["m7", "none", "m299", "m0", "m7"])
    assert set(got.found) == {"m0", "m7", "m299"}
    assert got.unknown == ("none",)
    assert got.left == ()
    assert got.found["m7"].wire == b"wire of m7"
    assert (got.found["m7"].sender_id, got.found["m7"].lamport_timestamp) == ("ann", 7)


def test_messages_are_found_by_our_hint_without_an_index(
    settings: KafkaSettings, rows: dict[str, SdsIndexRecord]
) -> None:
    entries = [HistoryEntry(name, StoreHint.of_index(rows[name]).encode()) for name in ("m200", "m3", "m4")]
    with SdsStore(settings, None) as messages:
        got = messages.retrieve(CHANNEL, [*entries, HistoryEntry("m5", bytes(32))])
        assert {name: message.wire for name, message in got.found.items()} == {
            name: f"wire of {name}".encode() for name in ("m200", "m3", "m4")
        }
        assert got.unknown == ("m5",)
        for entry in entries:
            assert got.found[entry.message_id].hint == entry.retrieval_hint
        by_hint = messages.by_hint(CHANNEL, StoreHint.of_index(rows["m9"]))
        assert by_hint is not None
        assert by_hint.message_id == "m9"


@pytest.mark.parametrize("change", ["check", "offset", "far", "partition", "id"])
def test_a_hint_that_leads_astray_falls_back_to_the_index(
    settings: KafkaSettings, index: SdsIndex, rows: dict[str, SdsIndexRecord], change: str
) -> None:
    right = StoreHint.of_index(rows["m7"])
    wrong = {
        "check": StoreHint(right.partition, right.offset, b"none"),
        "offset": StoreHint(right.partition, right.offset + 1, right.check),
        "far": StoreHint(right.partition, 1 << 62, right.check),
        "partition": StoreHint((right.partition + 1) % PARTITIONS, right.offset, right.check),
        "id": StoreHint.of_index(rows["m8"]),
    }[change]
    asked = [HistoryEntry("m7", wrong.encode())]
    with SdsStore(settings, index) as messages:
        assert messages.retrieve(CHANNEL, asked).found["m7"].wire == b"wire of m7"
    with SdsStore(settings, None) as messages:
        assert messages.retrieve(CHANNEL, asked).unknown == ("m7",)


def test_a_message_of_another_channel_is_not_handed_out(
    settings: KafkaSettings, index: SdsIndex, rows: dict[str, SdsIndexRecord]
) -> None:
    same = next(
        name for name in map(str, range(99)) if shard_of(name, PARTITIONS) == shard_of(CHANNEL, PARTITIONS)
    )
    hint = StoreHint.of_index(rows["m7"])
    with SdsStore(settings, index) as messages:
        assert messages.retrieve(same, [HistoryEntry("m7", hint.encode())]).unknown == ("m7",)
        assert messages.by_hint(same, hint) is None


def test_an_index_that_points_wrong_finds_nothing(settings: KafkaSettings, tmp_path: Path) -> None:
    written = store(settings, CHANNEL, [message_of("a", 1), message_of("b", 2)])
    write(settings, "sds.messages", [(CHANNEL, channel_key(CHANNEL), b"no record")])
    (_, row_a), (_, row_b) = written
    lost = SdsIndexRecord(row_b.partition, row_b.offset + 1, 3, "ann", 1, b"none")
    write_index(settings, CHANNEL, [("a", row_b), ("b", row_a), ("c", lost)])
    with SdsIndex(settings, tmp_path / "index.sqlite") as index, SdsStore(settings, index) as messages:
        index.catch_up()
        assert messages.by_ids(CHANNEL, ["a", "b", "c"]).unknown == ("a", "b", "c")


def test_retrievals_one_after_the_other_never_mix(settings: KafkaSettings, index: SdsIndex) -> None:
    """What the client still fetches for one retrieval is not taken for the next one's."""
    chance = random.Random(7)
    with SdsStore(settings, index) as messages:
        for _ in range(40):
            wanted = [f"m{chance.randrange(COUNT)}" for _ in range(chance.randrange(1, 6))]
            got = messages.by_ids(CHANNEL, wanted)
            assert {name: message.wire for name, message in got.found.items()} == {
                name: f"wire of {name}".encode() for name in wanted
            }


def test_what_one_retrieval_hands_out_is_bounded_and_the_rest_is_told(
    settings: KafkaSettings, index: SdsIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sds_store, "MAX_FETCH_BYTES", 25)
    wanted = ["m10", "m100", "m200", "m299"]
    taken: list[str] = []
    with SdsStore(settings, index) as messages:
        while wanted:
            got = messages.by_ids(CHANNEL, wanted)
            assert 1 <= len(got.found) <= 3
            taken += got.found
            wanted = list(got.left)
    assert taken == ["m10", "m100", "m200", "m299"]


def test_near_places_are_read_in_one_go() -> None:
    assert runs([], NEAR_RECORDS) == []
    assert runs([9, 1, 5], NEAR_RECORDS) == [[1, 5, 9]]
    assert runs([0, NEAR_RECORDS, 2 * NEAR_RECORDS + 1], NEAR_RECORDS) == [
        [0, NEAR_RECORDS],
        [2 * NEAR_RECORDS + 1],
    ]
