"""Channels and acknowledgements of SDS, replicas and sessions of Chotki, on the real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from culm_infra.console.tables import ConsoleTable, NotFound
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.records import (
    OpenSyncItem,
    SessionRecord,
    SourceRecord,
    VectorRecord,
    session_key,
    source_key,
    source_partition,
)
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import AckKey, channel_key, shard_of
from culm_topics.sds.records import (
    AckState,
    SdsAckRecord,
    SdsChannelRecord,
    SdsEventRecord,
    SdsParticipantRecord,
)
from tests.support.console.opened import all_rows, keys, note, opened, page, section
from tests.support.kafka.topic_io import produce, write_records

pytestmark = pytest.mark.kafka

PARTITIONS = 2
TIME_MS = 1_800_000_000_000
EDGE = bytes(range(32))


@pytest.fixture
def tables(kafka: KafkaSettings) -> Iterator[Mapping[str, ConsoleTable]]:
    with opened(kafka) as made:
        yield made


def channel(
    kafka: KafkaSettings, channel_id: str, *, lost: int = 0, messages: Mapping[str, AckState]
) -> None:
    summary = SdsChannelRecord("spec", TIME_MS, TIME_MS + 500, 7, 1, 0, lost, len(messages), 1, 9)
    rows = [(AckKey(channel_id), summary.encode())]
    rows.append((AckKey(channel_id, "ann"), SdsParticipantRecord(TIME_MS, len(messages)).encode()))
    for message_id, state in messages.items():
        due = TIME_MS if state == "unacknowledged" else None
        rows.append((AckKey(channel_id, "ann", message_id), SdsAckRecord(state, ("ben",), 2, due).encode()))
    partition = shard_of(channel_id, PARTITIONS)
    write_records(kafka, "sds.acks", [(partition, key.encode(), value) for key, value in rows])


def test_channels_and_acknowledgements_are_listed_and_found(
    kafka: KafkaSettings, tables: Mapping[str, ConsoleTable]
) -> None:
    channel(kafka, "general", messages={"m1": "unacknowledged", "m2": "acknowledged"})
    channel(kafka, "garden", lost=2, messages={"m3": "gave_up"})
    gone = AckKey("garden", "ann", "m3").encode()
    channels, messages = tables["sds-channels"], tables["sds-acknowledgements"]
    found = page(channels)
    assert [row.cells["channel"] for row in found.rows] == ["garden", "general"]
    garden, general = found.rows
    assert (garden.cells["lost"], garden.cells["state"], garden.severity) == (2, "messages lost", 2)
    assert (general.cells["log"], general.cells["ahead_ms"], general.severity) == (7, 500, 0)
    assert [row.cells["channel"] for row in channels.page("ener", "", 5).rows] == ["general"]
    rows = {row.cells["message"]: row for row in page(messages).rows}
    assert {name: row.cells["state"] for name, row in rows.items()} == {
        "m1": "unacknowledged",
        "m2": "acknowledged",
        "m3": "gave up",
    }
    assert rows["m1"].cells["evidence"] == ["ben"]
    assert len(messages.page("m2", "", 5).rows) == 1
    write_records(kafka, "sds.acks", [(shard_of("garden", PARTITIONS), gone, None)])
    page(messages, when=lambda found: found.total == 2)


def test_a_channel_shows_participants_messages_and_newest_events(
    kafka: KafkaSettings, tables: Mapping[str, ConsoleTable]
) -> None:
    channel(kafka, "general", messages={"m1": "unacknowledged", "m2": "acknowledged"})
    partition = shard_of("general", PARTITIONS)
    events = [
        (channel_key("general"), SdsEventRecord(number, "sent", "ann", f"m{number}", TIME_MS).encode())
        for number in range(1, 31)
    ]
    others = [(channel_key("other"), b"junk")] * 5
    write_records(kafka, "sds.events", [(partition, *event) for event in [*events, *others]])
    page(tables["sds-channels"])
    detail = tables["sds-channels"].detail(channel_key("general").hex())
    (participant,) = section(detail, "Hosted participants")
    assert (participant["participant"], participant["unacknowledged"], participant["acknowledged"]) == (
        "ann",
        2,
        1,
    )
    assert [row["message"] for row in section(detail, "Messages that are not acknowledged")] == ["m1"]
    newest = section(detail, "Newest events")
    assert [row["number"] for row in newest] == list(range(30, 10, -1))
    assert note(detail, "Newest events") == "the newest 20"
    assert detail.scan.complete and detail.scan.records >= 20
    (row, _) = page(tables["sds-acknowledgements"]).rows
    assert tables["sds-acknowledgements"].detail(row.key).title == "channel general"
    with pytest.raises(NotFound):
        tables["sds-channels"].detail(channel_key("nowhere").hex())


def session(peer: int, state: str, code: str = "") -> bytes:
    return SessionRecord(
        *(state, peer, "127.0.0.1:4", 7, bytes(10), b"\1" * 10, 20, 30),
        *(Progress(1, 2, 2_000, 0), Progress(1, 1, 30, 30), (OpenSyncItem(11, 4096, 1_500, 2_000),), 3, 2),
        *("", code, TIME_MS),
    ).encode()


def vector(*entries: tuple[int, int]) -> bytes:
    return VectorRecord(
        write_vector({src: Id.make(src, seq).pro for src, seq in entries}), 0, TIME_MS
    ).encode()


@pytest.fixture
def replicas(kafka: KafkaSettings) -> None:
    reports = [
        (GLOBAL_VECTOR_KEY, vector((16, 4), (17, 2))),
        (source_key(0xB), vector((16, 1))),
        (source_key(0xAB), vector((16, 4), (17, 2))),
        (source_key(1 << 60), vector((16, 4), (17, 2))),
    ]
    produce(kafka, "chotki.vectors", reports)
    claims = [(b"1" * 16, "north"), (b"2" * 16, "thief")]
    produce(
        kafka,
        "chotki.sources",
        [(source_key(0xC), SourceRecord(owner, run, "allocated", TIME_MS).encode()) for run, owner in claims],
    )
    produce(
        kafka,
        "chotki.sessions",
        [
            (session_key(EDGE, 1), session(0, "SendHandshake")),
            (session_key(EDGE, 1), session(0xB, "SendLive")),
            (session_key(EDGE, 2), session(0xAB, "SendNone", "chotki.refused")),
            (session_key(EDGE, 3), b"junk"),
        ],
    )
    packets = [(source_partition(0xB, PARTITIONS), source_key(0xB), b"packet %d" % n) for n in range(3)]
    write_records(kafka, "chotki.packets", packets)


@pytest.mark.usefixtures("replicas")
def test_replicas_have_their_lag_and_the_owner_whose_claim_holds(
    tables: Mapping[str, ConsoleTable],
) -> None:
    table = tables["chotki-replicas"]
    rows = {row.cells["source"]: row for row in page(table).rows}
    assert list(rows) == ["b", "c", "ab", "1000000000000000"]
    b, c = rows["b"].cells, rows["c"].cells
    assert (b["behind"], b["sources_behind"], b["vector"], b["state"]) == (
        6,
        2,
        ["10-1"],
        "not allocated here",
    )
    assert (c["behind"], c["owner"], c["state"]) == (None, "north", "in use")
    assert (rows["ab"].cells["behind"], rows["b"].severity, rows["ab"].severity) == (0, 1, 0)
    assert [row.cells["source"] for row in table.page("a", "", 5).rows] == ["ab"]
    assert [row.cells["source"] for row in table.page("1", "", 5).rows] == ["1000000000000000"]
    assert len(all_rows(table, 1)) == 4


@pytest.mark.usefixtures("replicas")
def test_the_vector_of_the_deployment_takes_no_place_on_a_page(
    kafka: KafkaSettings, tables: Mapping[str, ConsoleTable]
) -> None:
    # Its key is between those of these sources and the others.
    above = [(source_key((15 << 60) + number), vector((16, 4))) for number in range(2)]
    produce(kafka, "chotki.vectors", above)
    table = tables["chotki-replicas"]
    for limit in range(1, 7):
        page(table)
        assert len(all_rows(table, limit)) == 6, limit


@pytest.mark.usefixtures("replicas")
def test_a_replica_shows_sessions_lag_by_source_and_packets(tables: Mapping[str, ConsoleTable]) -> None:
    page(tables["chotki-replicas"])
    page(tables["chotki-sessions"], when=lambda found: len(found.rows) == 2)
    detail = tables["chotki-replicas"].detail(source_key(0xB).hex())
    assert [(row["source"], row["behind"]) for row in section(detail, "Behind, by source")] == [
        ("10", 3),
        ("11", 3),
    ]
    assert [row["state"] for row in section(detail, "Sessions")] == ["SendLive"]
    assert "1 malformed records" in (note(detail, "Sessions") or "")
    assert len(section(detail, "Newest packets of its source")) == 3
    with pytest.raises(NotFound):
        tables["chotki-replicas"].detail(source_key(0xD).hex())


@pytest.mark.usefixtures("replicas")
def test_sessions_are_shown_as_last_reported(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["chotki-sessions"]
    found = page(table, when=lambda found: len(found.rows) == 2)
    assert [(row.cells["peer"], row.cells["state"], row.severity) for row in found.rows] == [
        ("b", "SendLive", 0),
        ("ab", "over", 2),
    ]
    assert "malformed" in str(found.note)
    assert keys(table.page(EDGE.hex()[:6], "", 5)) == keys(found)
    assert keys(table.page("ff", "", 5)) == []
    detail = table.detail(found.rows[0].key)
    assert section(detail, "Open syncs") == [{"t": "b-1", "age_ms": 1_500, "bytes": 2_000}]
