"""Killed between every two writes (reference 9.3): whatever dies, nothing is lost and all agree in the end.

All along no vector runs ahead of its data, be it a replica's, an edge's or that of the topic's epochs.

A run without faults says how many writes there are; then each of them is the place of a fault in a run of its
own. Row by row that is the reference's table. Edges as processes: `test_chotki_edge_deaths`.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from culm_connectors.chotki import publisher
from culm_connectors.chotki.feed.peer_feed import PeerFeed
from culm_models.chotki.compat import Compat
from culm_streaming.chotki import state as shard_state
from culm_topics.chotki.records import CommitRecord, PacketRecord, large_fields, received
from tests.support.chotki.pipeline.faults import Fault
from tests.support.chotki.pipeline.world import FIVE_REPLICAS, THREE_REPLICAS, Differs, Tree, World

Log = list[tuple[str, str]]
Points = Callable[[Log], list[int]]

_SOAK_SEEDS = range(20)
_PAIRS = 300


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Thousands of runs whose edges die have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where the system has such a folder: thousands of stores are flushed and forgotten."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as path:
        yield Path(path)


class Runs:
    """Runs of one tree and seed, each in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        tree: Tree,
        seed: int,
        rounds: int,
        patience_s: float = 150.0,
        compat: Compat = Compat.DEFAULT,
    ) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._world = World(tree, folder, seed, {}, rounds, patience_s, compat)
        self.log = self.run({})

    def run(self, faults: dict[int, Fault]) -> Log:
        """One run with these faults. Raises `Differs`."""
        path = self._folder / str(next(self._numbers))
        return replace(self._world, folder=path, faults=faults).run().log

    def run_each(self, points: list[int], fault: Fault) -> None:
        """A run for each of these writes, with the fault there."""
        assert points, "nothing was written there: the run is too tame"
        for point in points:
            self.run({point: fault})


def of(who: str, *what: str) -> Points:
    """Writes of edges or of the job that are this."""
    return lambda log: [
        number for number, write in enumerate(log) if write[0].startswith(who) and write[1].startswith(what)
    ]


def behind(what: str) -> Points:
    """Of each edge, what it does next when Kafka has this."""

    def points(log: Log) -> list[int]:
        numbers = []
        for number, (who, written) in enumerate(log):
            if who != "job" and written == what:
                later = (index for index in range(number + 1, len(log)) if log[index][0] == who)
                numbers.append(next(later, number))
        return sorted(set(numbers))

    return points


ROWS: dict[str, tuple[Points, Fault]] = {
    "edge while Ds are spooled": (of("edge", "from peer"), Fault.KILL),
    "edge among the fields or block vectors of a sync": (of("edge", "chotki.fields"), Fault.KILL),
    "edge between acknowledgements and commit": (of("edge", "chotki.commits"), Fault.KILL),
    "edge after the commit": (behind("chotki.commits"), Fault.KILL),
    "edge with live packets not acknowledged": (of("edge", "chotki.packets"), Fault.KILL),
    "edge where a packet failed and a later one stands": (of("edge", "chotki.packets"), Fault.FAIL),
    "edge where a record of a sync failed": (of("edge", "chotki.fields", "chotki.commits"), Fault.FAIL),
    "edge between acknowledgement and sending on": (behind("chotki.packets"), Fault.KILL),
    "edge while serving a diff or a follow-up sync": (
        of("edge", "to peer h", "to peer H", "to peer D", "to peer V"),
        Fault.KILL,
    ),
    "edge among live sends": (of("edge", "to peer e", "to peer o"), Fault.KILL),
    "edge between staging and applying an epoch": (of("edge", "store"), Fault.KILL),
    "edge that loses its disk": (of("edge", "chotki.", "store"), Fault.LOSE),
    "Kafka is slow": (of("edge", "chotki.packets", "chotki.fields", "chotki.commits"), Fault.STALL),
    "job among the fields": (of("job", "chotki.state FIELDS"), Fault.KILL),
    "job between fields and block vectors": (of("job", "chotki.state VECTORS"), Fault.KILL),
    "job between block vectors and marks, and among the marks": (
        of("job", "chotki.state MARKS"),
        Fault.KILL,
    ),
    "job after the marks, before its checkpoint": (of("job", "chotki.vectors", "checkpoint"), Fault.KILL),
    "checkpoint lost": (of("job", ""), Fault.LOSE),
}


@pytest.mark.parametrize("row", ROWS)
def test_nothing_is_lost_whoever_is_killed_before_whatever_write(row: str, folder: Path) -> None:
    points, fault = ROWS[row]
    runs = Runs(folder, THREE_REPLICAS, seed=0, rounds=2)
    runs.run_each(points(runs.log), fault)


def test_values_that_do_not_parse_are_kept_with_compat_go_whatever_happens(folder: Path) -> None:
    runs = Runs(folder, THREE_REPLICAS, seed=0, rounds=2, compat=Compat.GO)
    runs.run_each(of("edge", "chotki.fields", "chotki.packets")(runs.log)[::5], Fault.KILL)
    runs.run_each(of("job", "")(runs.log)[::4], Fault.LOSE)


def test_large_operands_in_pieces_are_whole_whatever_happens_between_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "MAX_PIECE_BYTES", 32)
    runs = Runs(folder, THREE_REPLICAS, seed=0, rounds=2)
    fields = of("edge", "chotki.fields")(runs.log)
    runs.run_each(fields[::6], Fault.KILL)
    runs.run_each(fields[3::6], Fault.FAIL)
    runs.run_each(of("job", "")(runs.log)[::2], Fault.LOSE)


def test_large_fields_in_pieces_are_whole_whatever_happens_between_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, size in (
        (large_fields, "MAX_WHOLE_BYTES", 24),
        (large_fields, "STATE_PIECE_BYTES", 16),
        (shard_state, "LARGE_BYTES", 24),
        (shard_state, "_BLOB_BYTES", 16),
    ):
        monkeypatch.setattr(module, name, size)
    runs = Runs(folder, THREE_REPLICAS, seed=0, rounds=2)
    written = of("job", "chotki.state")(runs.log)
    runs.run_each(written[::16], Fault.KILL)
    runs.run_each(written[8::16], Fault.LOSE)
    runs.run_each(of("edge", "store")(runs.log)[::4], Fault.KILL)


def test_five_replicas_two_edges_and_a_circle_agree_after_any_fault(folder: Path) -> None:
    runs = Runs(folder, FIVE_REPLICAS, seed=0, rounds=3)
    for number, (points, fault) in enumerate(ROWS.values()):
        writes = points(runs.log)
        runs.run_each(writes[number % len(writes) :: 20], fault)


@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("seed", _SOAK_SEEDS)
def test_five_replicas_agree_after_each_fault_and_after_pairs(seed: int, folder: Path) -> None:
    runs = Runs(folder, FIVE_REPLICAS, seed, rounds=4)
    for points, fault in ROWS.values():
        runs.run_each(points(runs.log), fault)
    chance = random.Random(seed)
    for _ in range(_PAIRS):
        numbers = chance.sample(range(2 * len(runs.log)), 3)
        runs.run({number: chance.choice(tuple(Fault)) for number in numbers})


def test_a_seed_gives_the_same_run_again(folder: Path) -> None:
    first = Runs(folder / "first", FIVE_REPLICAS, seed=1, rounds=2)
    assert Runs(folder / "second", FIVE_REPLICAS, seed=1, rounds=2).log == first.log


# A pipeline that lacks one of its rules loses data: the runs above would tell.


def without_after() -> contextlib.AbstractContextManager[Any]:
    def packet(origin: Any, _: int, record: bytes, compat: Any) -> PacketRecord:
        return PacketRecord(origin, 0, record, compat)

    def commit(origin: Any, t: Any, vector: bytes, _: bytes, ends: Any) -> CommitRecord:
        return CommitRecord(origin, t, vector, b"", ends)

    return patch.multiple(publisher, PacketRecord=packet, CommitRecord=commit)


def without_ends() -> contextlib.AbstractContextManager[Any]:
    def commit(origin: Any, t: Any, vector: bytes, after: bytes, _: Any) -> CommitRecord:
        return CommitRecord(origin, t, vector, after, ())

    return patch.object(publisher, "CommitRecord", commit)


def without_follow_up() -> contextlib.AbstractContextManager[Any]:
    return patch.object(PeerFeed, "epoch", lambda feed: None)


@pytest.mark.parametrize(
    ("lack", "row"),
    [
        (without_after, "edge where a packet failed and a later one stands"),
        (without_ends, "edge among the fields or block vectors of a sync"),
        (without_follow_up, "edge with live packets not acknowledged"),
    ],
)
def test_without_one_of_its_rules_the_pipeline_loses_data(
    lack: Callable[[], contextlib.AbstractContextManager[Any]], row: str, folder: Path
) -> None:
    points, fault = ROWS[row]
    whole = Runs(folder, THREE_REPLICAS, seed=0, rounds=2, patience_s=70)
    writes = points(whole.log)
    lost = 0
    with lack():
        for point in writes[:: max(1, len(writes) // 12)]:
            try:
                whole.run({point: fault})
            except Differs:
                lost += 1
    assert lost > 0
