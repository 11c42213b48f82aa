"""`culm logs index verify`: what an index lost, block by block, and its repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.logs.index import LmdbLogStore, layout
from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records.blocks import block_of
from tests.connectors.edge.test_edge_commands import culm
from tests.connectors.logs.test_boot import AUTHORS, lose, write_logs
from tests.support.blocks import BITS, heights_of, write_blocks
from tests.support.edge import connector, running
from tests.support.logs import SCHEMA, make_log, pairs
from tests.support.waiting import until

PARTITIONS = 1
pytestmark = pytest.mark.kafka


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
    status, said = verify(folder, kafka)
    assert (status, said["differences"]) == (0, [])

    lose(folder, logs[0], 0)
    lose(folder, logs[1], 3)
    store = LmdbLogStore(peek, folder / INDEX_FOLDER)
    hole = layout.entry_key(*logs[2][0].log, 4)
    store._environment.write(lambda writing: writing.delete(hole, db=store._databases[b"entries"]))
    store.close()
    status, said = verify(folder, kafka)
    assert (status, said["sound"], said["damaged_logs"]) == (3, False, 3)
    found: dict[str, set[int]] = {"missing": set(), "behind": set(), "other": set()}
    for one in said["differences"]:
        assert (one["schema_id"], one["block_bits"], one["damage"]) == (SCHEMA, BITS, True)
        for what, blocks in found.items():
            if one[what]:
                blocks.add(one["block"])
    places = [block_of(key.public_key, BITS) for key in AUTHORS]
    assert found == {"missing": {places[0]}, "behind": {places[1]}, "other": {places[2]}}

    status, said = verify(folder, kafka, "--repair")
    assert (status, said["sound"], said["repaired_logs"], said["repaired_entries"]) == (0, True, 3, 24)
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
    status, said = verify(folder, kafka)
    assert (status, said["sound"]) == (0, True)
    assert [(one["missing"], one["pending"]) for one in said["differences"]] == [(1, True)]


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
