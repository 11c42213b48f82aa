"""What an index is filled from at the start, and `culm logs index verify`: what it lost, block by block."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.logs.index import LmdbLogStore, close_index, layout
from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import LogRecord
from culm_topics.logs.records.blocks import block_of
from culm_topics.records import log_key
from tests.connectors.edge.test_edge_commands import culm
from tests.support.bamboo.blocks import BITS, heights_of, write_blocks
from tests.support.connectors.edge import connector, hold_catching_up, reference_peer, running
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka

PARTITIONS = 1

AUTHORS = [author(name) for name in ("one", "two", "three", "four", "five")]


def write_logs(kafka: KafkaSettings, *logs: Sequence[CheckedOperation]) -> int:
    """Put logs on the one partition of `logs`; returns how many records."""
    writer = producer(kafka)
    for entry in [entry for log in logs for entry in log]:
        record = LogRecord(
            entry.entry.seq_num, entry.entry_bytes, entry.payload_bytes, entry.hash, entry.schema_id
        )
        writer.produce(kafka.topic("logs"), record.encode(), log_key(*entry.log))
    assert writer.flush(20) == 0
    return sum(map(len, logs))


async def test_a_fresh_connector_serves_before_it_holds_anything(
    tmp_path: Path, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [make_log(key, 0, 6) for key in AUTHORS]
    count = write_logs(kafka, *logs)
    write_blocks(kafka, {SCHEMA: heights_of(*logs)}, ((0, count),))
    gate = hold_catching_up(monkeypatch)
    edge = connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))
    async with (
        running(edge),
        reference_peer(tmp_path, "holder", live_mode=False) as holder,
        reference_peer(tmp_path, "newcomer", schemas=[SCHEMA]) as newcomer,
        reference_peer(tmp_path, "ahead", schemas=[SCHEMA]) as ahead,
    ):
        assert edge.address is not None
        assert edge.is_ready
        assert edge.index.store.counts() == (0, 0)
        for log in logs:
            await holder.add(pairs(log))
        summary = await holder.sync(edge.address)
        assert (summary.entries_sent, summary.entries_received, summary.entries_rejected) == (0, 0, 0)

        newcomer.dial(edge.address)
        await until(lambda: edge.driver.metrics.ranges_held_back == len(logs))
        longer = [*logs[0], *make_log(AUTHORS[0], 0, 3, after=logs[0])]
        for log in [longer, *logs[1:]]:
            await ahead.add(pairs(log))
        ahead.dial(edge.address)
        await until(lambda: edge.driver.metrics.entries_in == 3)
        assert edge.index.store.counts() == (0, 0)

        gate.set()
        await newcomer.wait_until_holding({log[0].log: 6 for log in logs} | {longer[0].log: 9}, 30)
        await until(lambda: edge.index.store.height(*longer[0].log) == 9)
        for log in [longer, *logs[1:]]:
            assert list(newcomer.store.entries(*log[0].log, 1, 99)) == pairs(log)
        assert not edge.warm_start.claims.anything
        assert edge.driver.metrics.ranges_held_back == 0
        assert edge.driver.metrics.rejects.total() == 0
        assert newcomer.driver.metrics.duplicates == ahead.driver.metrics.duplicates == 0
        assert edge.warm_start.damaged_logs == 0


async def test_an_interest_is_served_before_it_is_read_back(tmp_path: Path, kafka: KafkaSettings) -> None:
    log, other = make_log(AUTHORS[0], 0, 5), make_log(AUTHORS[1], 0, 4, schema_id=OTHER_SCHEMA)
    count = write_logs(kafka, log, other)
    write_blocks(kafka, {SCHEMA: heights_of(log), OTHER_SCHEMA: heights_of(other)}, ((0, count),))
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[OTHER_SCHEMA], live_mode=False) as a,
    ):
        assert edge.address is not None
        await a.add(pairs(other))
        summary = await a.sync(edge.address)
        assert (summary.entries_sent, summary.schema_ids) == (0, (OTHER_SCHEMA,))
        await until(lambda: not edge.warm_start.claims.anything)
        assert edge.index.store.counts() == (1, 4)


def lose(folder: Path, log: Sequence[CheckedOperation], kept: int) -> None:
    """Take a log's entries above `kept` out of a closed index, as a defect of ours would."""
    store = LmdbLogStore(peek, folder / INDEX_FOLDER)
    try:
        store.adopt(store.forget([log_key(*log[0].log)]))
        store.append(log[:kept])
    finally:
        close_index(store)


async def test_a_damaged_index_is_mended_log_by_log(
    tmp_path: Path, kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [make_log(key, 0, 8) for key in AUTHORS]
    count = write_logs(kafka, *logs)
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        assert edge.index.store.counts() == (5, 40)
    lose(tmp_path / "edge", logs[1], 0)
    lose(tmp_path / "edge", logs[3], 5)
    write_blocks(kafka, {SCHEMA: heights_of(*logs)}, ((0, count),))
    with caplog.at_level(logging.WARNING, "culm_connectors.logs.warm_start"):
        async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
            await until(lambda: not edge.warm_start.claims.anything)
            store = edge.index.store
            assert [list(store.entries(*log[0].log, 1, 99)) for log in logs] == [pairs(log) for log in logs]
            assert (edge.warm_start.damaged_logs, edge.warm_start.repaired_entries) == (2, 16)
            assert edge.followers.logs.taken == 0
    assert "1 missing" in caplog.text
    assert "1 behind" in caplog.text


async def test_logs_that_go_on_behind_damage_do_not_cost_the_whole_index(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    logs = [make_log(key, 0, 8) for key in AUTHORS]
    write_logs(kafka, *logs)
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))):
        pass
    lose(tmp_path / "edge", logs[0], 3)
    lose(tmp_path / "edge", logs[1], 0)
    longer = [[*log, *make_log(key, 0, 2, after=log)] for log, key in zip(logs, AUTHORS, strict=True)]
    write_logs(kafka, *[log[8:] for log in longer])
    # The job lags: it has seen all of `logs` but the newest records.
    write_blocks(kafka, {SCHEMA: heights_of(*logs)}, ((0, 40),))
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        await until(lambda: not edge.warm_start.claims.anything)
        store = edge.index.store
        assert [list(store.entries(*log[0].log, 1, 99)) for log in longer] == [pairs(log) for log in longer]
        assert edge.warm_start.damaged_logs == 2


async def test_blocks_of_another_logs_are_not_used(
    tmp_path: Path, kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_log(AUTHORS[0], 0, 3)
    write_logs(kafka, log)
    write_blocks(kafka, {SCHEMA: [(*log[0].log, 999)]}, ((0, 1_000),))
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
        reference_peer(tmp_path, "a", live_mode=False) as a,
    ):
        assert edge.address is not None
        assert not edge.warm_start.claims.anything
        summary = await a.sync(edge.address)
        assert summary.entries_received == 3
    assert "more than `logs` holds" in caplog.text


async def test_blocks_that_are_wrong_stop_nobody(
    tmp_path: Path, kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_log(AUTHORS[0], 0, 3)
    write_logs(kafka, log)
    write_blocks(kafka, {SCHEMA: [(*log[0].log, 999)]}, ((0, 3),))
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
        reference_peer(tmp_path, "a", live_mode=False) as a,
    ):
        assert edge.address is not None
        summary = await a.sync(edge.address)
        assert summary.entries_received == 3
        await until(lambda: not edge.warm_start.claims.anything)
        assert edge.index.store.height(*log[0].log) == 3
    assert "`blocks` is wrong there" in caplog.text


async def test_without_the_topic_all_is_read_from_logs(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(kafka, [spec for spec in CATALOGUE if spec.name != "blocks"])
    log = make_log(AUTHORS[0], 0, 3)
    write_logs(kafka, log)
    with caplog.at_level(logging.INFO, "culm_connectors.logs.warm_start"):
        async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
            assert edge.index.store.height(*log[0].log) == 3
    assert "there is no topic `blocks`" in caplog.text


def verify(folder: Path, kafka: KafkaSettings, *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit status and what it said in JSON."""
    where = ("--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix)
    done = culm("logs", "index", "verify", "--dir", folder, *where, "--json", *flags, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def fill(folder: Path, kafka: KafkaSettings, entry_count: int) -> None:
    """Run a connector until its index holds so many entries: it serves before that."""
    async with running(connector(folder, kafka, schemas=(SCHEMA,))) as edge:
        await until(lambda: edge.index.store.counts()[1] == entry_count)


async def test_damage_is_told_by_block_and_repaired(tmp_path: Path, kafka: KafkaSettings) -> None:
    logs = [make_log(key, 0, 8) for key in AUTHORS]
    count = write_logs(kafka, *logs)
    write_blocks(kafka, {SCHEMA: heights_of(*logs)}, ((0, count),))
    folder = tmp_path / "edge"
    await fill(folder, kafka, count)
    status, report = verify(folder, kafka)
    assert (status, report["differences"]) == (0, [])

    lose(folder, logs[0], 0)
    lose(folder, logs[1], 3)
    store = LmdbLogStore(peek, folder / INDEX_FOLDER)
    hole = log_key(*logs[2][0].log) + layout.U64.pack(4)
    store._environment.write(lambda writing: writing.delete(hole, db=store._databases[b"entries"]))
    store.close()
    status, report = verify(folder, kafka)
    assert (status, report["sound"], report["damaged_logs"]) == (3, False, 3)
    differing: dict[str, set[int]] = {"missing": set(), "behind": set(), "other": set()}
    for difference in report["differences"]:
        assert (difference["schema_id"], difference["block_bits"], difference["damage"]) == (
            SCHEMA,
            BITS,
            True,
        )
        for what, blocks in differing.items():
            if difference[what]:
                blocks.add(difference["block"])
    places = [block_of(key.public_key, BITS) for key in AUTHORS]
    assert differing == {"missing": {places[0]}, "behind": {places[1]}, "other": {places[2]}}

    status, report = verify(folder, kafka, "--repair")
    assert (status, report["sound"], report["repaired_logs"], report["repaired_entries"]) == (0, True, 3, 24)
    assert verify(folder, kafka)[1]["differences"] == []
    store = LmdbLogStore(peek, folder / INDEX_FOLDER)
    assert [list(store.entries(*log[0].log, 1, 9)) for log in logs] == [pairs(log) for log in logs]
    store.close()


async def test_what_has_not_been_read_yet_is_no_damage(tmp_path: Path, kafka: KafkaSettings) -> None:
    folder = tmp_path / "edge"
    log, later = make_log(AUTHORS[0], 0, 8), make_log(AUTHORS[1], 0, 8)
    await fill(folder, kafka, write_logs(kafka, log))
    count = write_logs(kafka, later)
    write_blocks(kafka, {SCHEMA: heights_of(log, later)}, ((0, 8 + count),))
    status, report = verify(folder, kafka)
    assert (status, report["sound"]) == (0, True)
    assert [(difference["missing"], difference["pending"]) for difference in report["differences"]] == [
        (1, True)
    ]


def test_an_index_that_is_not_there_is_not_made(tmp_path: Path, kafka: KafkaSettings) -> None:
    where = ("--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix)
    done = culm("logs", "index", "verify", "--dir", tmp_path / "nowhere", *where, check=False)
    assert (done.returncode, "index.missing" in done.stderr) == (1, True)
    assert not (tmp_path / "nowhere").exists()


async def test_a_connector_that_runs_keeps_its_index_to_itself(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))):
        where = ("--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix)
        done = culm("logs", "index", "verify", "--dir", tmp_path / "edge", *where, check=False)
        assert (done.returncode, "index.busy" in done.stderr) == (1, True)
