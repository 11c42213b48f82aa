"""Logs and peers of p2panda, from blocks on the real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from culm_infra.console.tables import BadRequest, ConsoleTable, NotFound
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import Announce
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import BlockKey, BlockKind
from culm_topics.records import log_key
from tests.support.console.block_records import BITS, block_records
from tests.support.console.opened import all_rows, keys, note, opened, page, section
from tests.support.kafka.topic_io import produce, write_truth
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

pytestmark = pytest.mark.kafka

AUTHORS = [bytes([number]) + bytes(range(31)) for number in range(0, 256, 16)]
PANDA = author("panda")
ENTRIES = make_log(PANDA, 0, 3)
VENUES = {(key, 0): number for number, key in enumerate(AUTHORS, 1)} | {(PANDA.public_key, 0): 3}
EVENTS = {(key, 1): 10 for key in AUTHORS[:4]}
SETS = {SCHEMA.encode(): VENUES, OTHER_SCHEMA.encode(): EVENTS}
WHOLE, BEHIND, SILENT = (bytes([number]) * 32 for number in (1, 2, 3))
VECTORS = {
    WHOLE: VENUES,
    BEHIND: {(AUTHORS[0], 0): 1, (AUTHORS[2], 0): 1, (AUTHORS[3], 1): 4, (bytes([7]) * 32, 9): 5},
}


@pytest.fixture
def tables(kafka: KafkaSettings) -> Iterator[Mapping[str, ConsoleTable]]:
    produce(kafka, "blocks", block_records(SETS))
    produce(kafka, "block-vectors", block_records(VECTORS, in_chunks=False))
    announced = encode(Announce(1, 5, (SCHEMA,)))
    late = encode(Announce(1, 3, (OTHER_SCHEMA,)))
    produce(kafka, "announcements", [(BEHIND, announced), (SILENT, announced), (BEHIND, late)])
    write_truth(kafka, ENTRIES)
    with opened(kafka) as made:
        yield made


def test_logs_are_paged_in_the_order_of_their_keys(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["p2panda-logs"]
    expected = sorted([*VENUES, *EVENTS])
    assert page(table).total == len(expected)
    rows = all_rows(table, 3)
    assert [(bytes.fromhex(row.cells["author"]), int(row.cells["log_id"])) for row in rows] == expected
    first = rows[0].cells
    assert (first["height"], first["schema"], first["block"]) == (1, SCHEMA, 0)


def test_logs_are_found_by_key_by_name_and_by_schema(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["p2panda-logs"]
    page(table)
    key = AUTHORS[2]
    both = [log_key(key, log_id).hex() for log_id in (0, 1)]
    for search in ("2", "20", "200", key.hex(), key.hex().upper()):
        assert keys(table.page(search, "", 50))[:2] == both, search
    assert keys(table.page(f"{key.hex()}/1", "", 50)) == both[1:]
    assert keys(table.page("f" * 64, "", 50)) == []
    found = table.page("event_", "", 3)
    assert [row.cells["schema"] for row in found.rows] == [OTHER_SCHEMA] * 3
    assert found.next is not None
    assert len(table.page("event_", found.next, 3).rows) == 1


def test_a_log_shows_the_peers_that_hold_it_and_its_newest_entries(
    tables: Mapping[str, ConsoleTable],
) -> None:
    table = tables["p2panda-logs"]
    page(tables["p2panda-peers"])
    detail = table.detail(log_key(AUTHORS[2], 0).hex())
    assert [(row["peer"], row["holds"], row["behind"]) for row in section(detail, "Peers that hold it")] == [
        (BEHIND.hex(), 1, 2),
        (WHOLE.hex(), 3, 0),
    ]
    assert "no record" in (note(detail, "Newest entries") or "")
    entries = section(table.detail(log_key(PANDA.public_key, 0).hex()), "Newest entries")
    assert [(row["seq_num"], row["action"]) for row in entries] == [
        (3, "update"),
        (2, "update"),
        (1, "create"),
    ]
    assert entries[0]["hash"] == ENTRIES[2].hash.hex()
    for unknown in (log_key(bytes(32), 5).hex(), "00", "no hex"):
        with pytest.raises(NotFound):
            table.detail(unknown)


def test_peers_are_shown_with_their_lag_in_the_logs_that_they_hold(
    tables: Mapping[str, ConsoleTable],
) -> None:
    table = tables["p2panda-peers"]
    found = page(table)
    assert found.total == 3
    whole, behind, silent = (row.cells for row in found.rows)
    assert (whole["peer"], whole["logs"], whole["entries_behind"]) == (WHOLE.hex(), len(VENUES), 0)
    assert (whole["state"], whole["schemas"]) == ("up to date", [])
    assert (behind["logs"], behind["logs_behind"], behind["entries_behind"]) == (4, 2, 2 + 6)
    # An earlier announcement that comes late does not replace the later one.
    assert (behind["state"], behind["schemas"]) == ("behind", [SCHEMA])
    assert (silent["logs"], silent["state"]) == (0, "holds nothing")
    assert [row.severity for row in found.rows] == [0, 1, 0]
    assert keys(table.page(BEHIND.hex()[:5], "", 5)) == [BEHIND.hex()]
    with pytest.raises(BadRequest, match="hex"):
        table.page("peer", "", 5)


def test_a_peer_shows_the_logs_in_which_it_is_behind(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["p2panda-peers"]
    page(table)
    detail = table.detail(BEHIND.hex())
    assert {row["schema"]: row["entries_behind"] for row in section(detail, "By schema")} == {
        SCHEMA: 2,
        OTHER_SCHEMA: 6,
    }
    rows = section(detail, "Logs in which it is behind")
    assert [(row["author"], row["log"], row["holds"], row["height"]) for row in rows] == [
        (AUTHORS[3].hex(), "1", 4, 10),
        (AUTHORS[2].hex(), "0", 1, 3),
    ]
    assert detail.scan.complete
    with pytest.raises(NotFound):
        table.detail("ab" * 32)


def test_a_block_that_cannot_be_read_costs_its_logs_and_is_named(
    kafka: KafkaSettings, tables: Mapping[str, ConsoleTable]
) -> None:
    table = tables["p2panda-logs"]
    whole = page(table)
    chunk = BlockKey(BlockKind.HEIGHTS, BITS, 0, SCHEMA.encode()).encode()
    produce(kafka, "blocks", [(chunk, b"junk"), (b"\x09", b"junk")])
    torn = page(table, when=lambda found: found.note is not None and "put together" in found.note)
    assert "1 malformed records" in str(torn.note)
    assert not torn.complete
    assert 0 < len(torn.rows) < len(whole.rows)


def test_a_block_whose_name_no_set_can_have_is_left_out(
    kafka: KafkaSettings, tables: Mapping[str, ConsoleTable]
) -> None:
    whole = page(tables["p2panda-logs"])
    page(tables["p2panda-peers"])
    wrong = b"\xff" * 31
    produce(kafka, "blocks", block_records({wrong: VENUES}))
    produce(kafka, "block-vectors", block_records({wrong: VENUES}, in_chunks=False))
    after = page(
        tables["p2panda-logs"], when=lambda found: found.note is not None and "malformed" in found.note
    )
    assert keys(after) == keys(whole)
    page(tables["p2panda-peers"], when=lambda found: "block-vectors are left out" in (found.note or ""))
    detail = tables["p2panda-logs"].detail(log_key(AUTHORS[2], 0).hex())
    assert {row["peer"] for row in section(detail, "Peers that hold it")} == {BEHIND.hex(), WHOLE.hex()}
