"""Refused data on the real broker: the newest first, found by code and origin, shown whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from culm_infra.console.tables import BadRequest, ConsoleTable, NotFound
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key, rejection
from tests.support.console.opened import opened, section
from tests.support.kafka.topic_io import produce
from tests.support.p2panda.logs import author, make_log

pytestmark = pytest.mark.kafka

ANN = bytes(range(32))
FIRST, OTHER = make_log(author("panda"), 7, 1), make_log(author("panda"), 7, 1, text="fork")
LOG = log_key(*FIRST[0].log)


@pytest.fixture
def table(kafka: KafkaSettings) -> Iterator[ConsoleTable]:
    fork = rejection(
        "bamboo.fork",
        "two entries",
        entry=OTHER[0].entry_bytes,
        operation=OTHER[0].payload_bytes,
        brought_by=ANN,
        source=(kafka.topic("entries"), 1, 5),
        seq_num=1,
        first=FIRST[0].entry_bytes,
    )
    many = [(b"", rejection("sds.channel.unknown", f"number {number}").encode()) for number in range(20)]
    produce(kafka, "rejected", [(LOG, fork.encode()), *many, (b"", b"junk")])
    with opened(kafka) as tables:
        yield tables["rejected"]


def test_the_newest_come_first_page_by_page(table: ConsoleTable, kafka: KafkaSettings) -> None:
    first = table.page("", "", 8)
    assert (first.total, first.complete) == (22, True)
    assert [row.key for row in first.rows] == [f"0:{offset}" for offset in range(21, 13, -1)]
    assert (first.rows[0].cells["code"], first.rows[0].severity) == ("malformed", 2)
    assert first.rows[1].cells["detail"] == "number 19"
    produce(kafka, "rejected", [(b"", b"junk")])
    second = table.page("", str(first.next), 8)
    assert [row.key for row in second.rows] == [f"0:{offset}" for offset in range(13, 5, -1)]
    last = table.page("", str(second.next), 8)
    assert ([row.key for row in last.rows][-1], last.next) == ("0:0", None)


def test_records_are_found_by_code_origin_peer_and_key(table: ConsoleTable) -> None:
    for search in ("bamboo", "FORK", "entries", "logs", ANN.hex()[:8], LOG.hex()[:8]):
        found = table.page(search, "", 5)
        assert [row.key for row in found.rows] == ["0:0"], search
        assert found.next is None
    found = table.page("sds", "", 5)
    assert [row.key for row in found.rows] == [f"0:{offset}" for offset in range(20, 15, -1)]
    assert table.page("sds", str(found.next), 5).rows[0].key == "0:15"
    with pytest.raises(BadRequest):
        table.page("", "-1", 5)


def test_a_fork_is_shown_with_its_proof(table: ConsoleTable) -> None:
    (row,) = table.page("fork", "", 5).rows
    assert row.cells["origin"] == "entries"
    assert row.cells["proof"].startswith("two entries")
    detail = table.detail(row.key)
    assert section(detail, "Refused bytes")[0]["hex"] == OTHER[0].entry_bytes.hex()
    assert section(detail, "Entry that is kept")[0]["hex"] == FIRST[0].entry_bytes.hex()
    assert any("bamboo.entry.decode" in part.title for part in detail.sections)
    for unknown in ("0:99", "1:0", "first"):
        with pytest.raises(NotFound):
            table.detail(unknown)
    with pytest.raises(NotFound, match="malformed"):
        table.detail("0:21")


def test_nothing_refused_is_no_failure(kafka: KafkaSettings) -> None:
    with opened(kafka) as tables:
        found = tables["rejected"].page("", "", 5)
        assert (found.rows, found.next, found.note) == ([], None, "nothing was refused")
