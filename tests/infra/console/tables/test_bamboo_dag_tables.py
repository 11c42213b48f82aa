"""Coverage of Bamboo's logs, and published ids and spaces of DAGs, on the real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from culm_infra.console.tables import BadRequest, ConsoleTable, NotFound
from culm_models.bamboo.hashes import YAMF
from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.publish.states import PublishState
from culm_topics.dag.records import (
    NO_LINKS,
    CompletePublish,
    HeadsRecord,
    PublishedRecord,
    PublishRecord,
    first_links,
    order_records,
)
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import coverage_key, coverage_record
from culm_topics.records import HEIGHTS_PEER_ID, log_key
from tests.support.console.opened import keys, note, opened, page, section
from tests.support.kafka.topic_io import produce

pytestmark = pytest.mark.kafka

PEER = b"p" * 32
FIRST, SECOND = bytes([1]) * 32, bytes([0x1F]) * 32
WHOLE, GAPS, OLD = log_key(FIRST, 0), log_key(SECOND, 5), log_key(SECOND, 5, YAMF)
DATA = [bytes([0xA1, number]) for number in range(5)]
A, B, C, D, E = (cid_of(DAG_CBOR, data) for data in DATA)
ID, BROKEN_ID = bytes([3]) * 32, bytes([4]) * 32


@pytest.fixture
def tables(kafka: KafkaSettings) -> Iterator[Mapping[str, ConsoleTable]]:
    with opened(kafka) as made:
        yield made


@pytest.fixture
def coverage(kafka: KafkaSettings) -> None:
    rows = {
        (HEIGHTS_PEER_ID, WHOLE): coverage_record([(1, 4)], [(1, 4)], [(1, 4)]),
        (HEIGHTS_PEER_ID, GAPS): coverage_record([(1, 2), (10, 21)], [(10, 12)], [(1, 2)]),
        (HEIGHTS_PEER_ID, OLD): coverage_record([(2, 3)], [], []),
        (PEER, GAPS): coverage_record([(10, 14)], [], []),
        (PEER, WHOLE): coverage_record([(1, 2)], [], []),
    }
    produce(kafka, "coverage", [(coverage_key(*key), row.encode()) for key, row in rows.items()])
    produce(kafka, "coverage", [(coverage_key(HEIGHTS_PEER_ID, WHOLE), b"\x85\x01"), (b"short", b"")])


@pytest.mark.usefixtures("coverage")
def test_logs_have_the_ranges_that_the_deployment_holds(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["bamboo-logs"]
    found = page(table, when=lambda found: found.total == 3 and "2 malformed records" in str(found.note))
    whole, gaps, old = (row.cells for row in found.rows)
    assert (whole["entries"], whole["state"], whole["gaps"]) == ("1–3", "whole", 0)
    assert (gaps["entries"], gaps["entry_count"], gaps["gaps"]) == ("1, 10–20", 12, 1)
    assert (gaps["payloads"], gaps["provable"], gaps["flavour"]) == ("10–11", 1, "yasmf")
    assert (old["flavour"], old["gaps"], old["state"]) == ("yamf", 1, "with gaps")
    assert found.next is None
    second = table.page("", str(table.page("", "", 2).next), 2)
    assert keys(second) == [OLD.hex()]
    assert keys(table.page("1", "", 5)) == [GAPS.hex(), OLD.hex()]
    assert keys(table.page("01", "", 5)) == [WHOLE.hex()]
    with pytest.raises(BadRequest):
        table.page("log", "", 5)


@pytest.mark.usefixtures("coverage")
def test_a_log_shows_all_ranges_and_what_peers_hold(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["bamboo-logs"]
    page(table, when=lambda found: found.total == 3)
    detail = table.detail(GAPS.hex())
    assert [(row["what"], row["first"], row["last"]) for row in section(detail, "Ranges")] == [
        ("Entries", "1", "1"),
        ("Entries", "10", "20"),
        ("Payloads", "10", "11"),
        ("Provable entries", "1", "1"),
    ]
    (peer,) = section(detail, "Peers")
    assert (peer["peer"], peer["entries"], peer["missing"]) == (PEER.hex(), "10–13", 8)
    assert section(table.detail(OLD.hex()), "Peers") == []
    for unknown in (log_key(bytes(32), 9).hex(), "00"):
        with pytest.raises(NotFound):
            table.detail(unknown)


@pytest.fixture
def published(kafka: KafkaSettings) -> None:
    complete = CompletePublish(B, C, D, None)
    rows = [
        (
            ID,
            PublishedRecord(C, (C,), 3, PublishState.COMPLETE, first_links([D]), NO_LINKS, complete).encode(),
        ),
        (BROKEN_ID, PublishedRecord(A, (A,), 1, PublishState.BROKEN, NO_LINKS, NO_LINKS, None).encode()),
        (bytes([5]) * 32, b"junk"),
    ]
    produce(kafka, "dag.published", rows)
    heads = HeadsRecord(first_links([A, B]), 2, first_links([E]), NO_LINKS, NO_LINKS)
    produce(kafka, "dag.heads", [(ID, heads.encode())])
    changes: list[tuple[int, list[Cid]]] = [(0, [A, B]), (1, [D, B, C])]
    produce(
        kafka,
        "dag.order",
        [(ID, record.encode()) for position, links in changes for record in order_records(position, links)],
    )
    publishes = [
        (ID, PublishRecord(cid, None, data, 7, PEER).encode()) for cid, data in ((A, DATA[0]), (B, DATA[1]))
    ]
    produce(kafka, "dag.publishes", [*publishes, (ID, b"junk")])


@pytest.mark.usefixtures("published")
def test_ids_have_their_tip_and_its_state(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["dag-ids"]
    found = page(table, when=lambda found: found.total == 2 and "1 malformed records" in str(found.note))
    first, broken = found.rows
    assert (first.cells["tip"], first.cells["state"], first.cells["count"]) == (C.text, "complete", 3)
    assert (first.cells["root"], first.cells["other_heads"], first.severity) == (C.text, 1, 0)
    assert (broken.cells["state"], broken.cells["complete"], broken.severity) == ("broken", None, 2)
    assert keys(table.page("04", "", 5)) == [BROKEN_ID.hex()]


@pytest.mark.usefixtures("published")
def test_an_id_shows_its_order_publishes_and_heads(tables: Mapping[str, ConsoleTable]) -> None:
    for name in ("dag-ids", "dag-spaces"):
        page(tables[name], when=lambda found: found.rows)
    detail = tables["dag-ids"].detail(ID.hex())
    order = section(detail, "Order, the last publish first")
    assert [(row["position"], row["publish"]) for row in order] == [
        (3, C.text),
        (2, B.text),
        (1, D.text),
        (0, A.text),
    ]
    publishes = section(detail, "Newest publishes")
    assert publishes[0]["publish"].startswith("malformed")
    assert [row["publish"] for row in publishes[1:]] == [B.text, A.text]
    assert {row["cid"] for row in section(detail, "Heads")} == {A.text, B.text}
    assert section(detail, "Missing nodes") == [{"cid": E.text}]
    assert "no record" in (note(tables["dag-ids"].detail(BROKEN_ID.hex()), "Newest publishes") or "")
    with pytest.raises(NotFound):
        tables["dag-ids"].detail("ee" * 32)


@pytest.mark.usefixtures("published")
def test_spaces_have_their_heads_and_what_is_missing(tables: Mapping[str, ConsoleTable]) -> None:
    table = tables["dag-spaces"]
    (row,) = page(table).rows
    assert (row.cells["shards"], row.cells["missing_nodes"], row.cells["state"]) == (2, 1, "incomplete")
    assert set(row.cells["heads"]) == {A.text, B.text}
    assert table.detail(row.key).scan.complete
