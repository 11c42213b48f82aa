"""The report and the waits of every demo: for people, for programs, and which conditions do not hold."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_infra.cli.root import run as culm
from culm_infra.demo.dag.run import REPLICAS
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport, Listing, SceneFigures, outcome_text
from culm_infra.demo.kit.size import DemoSize
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.demo.p2panda import run
from culm_infra.demo.p2panda.actors import FinishedSessions, LiveClock
from culm_infra.demo.p2panda.audit import BlockAudit, RejectedSummary
from culm_infra.demo.p2panda.concurrent_edits import ConcurrentEdits
from culm_infra.demo.p2panda.convergence import (
    ConnectorStart,
    Evidence,
    Timings,
    check_convergence,
    signed_entries,
)
from culm_infra.demo.p2panda.documents import DocumentAudit
from culm_infra.demo.p2panda.plan import make_plan
from culm_infra.errors import NotReached
from culm_infra.protocols import DEMOS
from culm_topics.logs.version_vectors import Vectors
from tests.infra.demo import test_demo_parts, test_sds_demo_convergence


def shown(report: DemoReport) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    for table in report.tables():
        console.print(table)
    return console.export_text()


def p2panda() -> SceneFigures:
    return judged(evidence())


def sds() -> SceneFigures:
    people = test_sds_demo_convergence.transcripts()
    scene = test_sds_demo_convergence.judged(people, test_sds_demo_convergence.pipeline(people), [])
    _, participants, channels = scene.listings
    participants.rows[0].update(name="general-hosted-12", held=11_366, ack_p99_ms=144_893.0)  # type: ignore[attr-defined]
    channels.rows[0].update(broadcast_bytes=123_456_789, repairs=1_234)  # type: ignore[attr-defined]
    return scene


def chotki() -> SceneFigures:
    ada = test_demo_parts.editor("ada", 0xADA)
    ada.new_object(ada.new_class())
    store = ada.peer.replica.store.values()
    return test_demo_parts.scene_of([store, store], Counter())


def dag() -> SceneFigures:
    statements = [
        test_demo_parts.witness("ada", *"abcdefghij" * 2),
        test_demo_parts.witness("edge west", "bafyrei" * 9, heads=None),
    ]
    rows = [statement.as_row() for statement in statements]
    return SceneFigures("bound", "Bound", listings=[Listing("replicas", "All", REPLICAS, rows, words=2)])


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (p2panda, ("peer-1", "forked logs found", "behind")),
        (sds, ("participant", "acked", "p99", "repaired", "kB sent", "123,456", "144.9")),
        (chotki, ("late", "west, quic", "replica objects")),
        (dag, ("edge west", "publishes", "order")),
    ],
)
def test_the_report_fits_a_terminal_and_is_plain_data_for_programs(
    scene: Callable[[], SceneFigures], words: tuple[str, ...]
) -> None:
    report = DemoReport("all of it is so", [scene()])
    text = shown(report)
    assert "…" not in text
    assert [word for word in (*words, report.claim) if word not in text] == []
    document = json.loads(json.dumps(report.as_json()))
    assert document["converged"] is report.converged
    assert set(document["scenes"][0]) >= {listing.name for listing in report.scenes[0].listings}


@pytest.mark.parametrize("scene", [p2panda, sds, chotki, dag])
@pytest.mark.parametrize("copies", [1, 12])
def test_the_summary_has_at_most_25_lines(scene: Callable[[], SceneFigures], copies: int) -> None:
    scenes = [scene() for _ in range(copies)]
    for number in range(40):
        scenes[0].add_problem(
            1, f"problem {number}, which is explained in a sentence that is far too long for a line"
        )
    report = DemoReport("all of it is so", scenes)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(report.summary())
    lines = console.export_text().splitlines()
    assert len(lines) <= 24, "one more names the report"
    assert max(map(len, lines)) <= 80
    assert "all of it is so" in lines[-2]
    assert "more in the report" in "".join(lines)


@pytest.mark.parametrize(("verbose", "keep"), [(False, False), (True, True)])
def test_a_demo_ends_with_its_summary_and_leaves_the_whole_report_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, verbose: bool, keep: bool
) -> None:
    async def play(_: DemoSize, stage: DemoStage) -> DemoReport:
        (stage.output / "job.log").write_text("printed")
        return DemoReport("all of it", [replace(p2panda(), problems=[])])

    kafka = ClusterFlags(stack=f"{tmp_path}/")
    flags = DemoFlags(verbose=verbose, keep=keep)
    with contextlib.suppress(typer.Exit):
        present(flags, kafka, Results(), DemoSize(), play)
    shown = capsys.readouterr().out
    *lines, last = shown.splitlines()
    assert last == f"the whole report: {tmp_path / 'report.txt'}"
    assert ("The whole run" in shown) == verbose
    assert verbose or len(lines) < 25
    assert "The whole run" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize("name", ["demo", *(f"demo {name}" for name in list(DEMOS)[1:])])
def test_every_demo_can_stay_up_and_can_print_all(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert culm([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--keep" in shown and "--verbose" in shown


def test_a_figure_that_is_not_as_it_has_to_be_is_a_problem_and_no_other() -> None:
    scene = SceneFigures("one", "A scene")
    scene.show("only shown", 5)
    scene.equal("right", 5, 5)
    scene.at_most("low enough", 5, 5)
    scene.at_least("high enough", 5.0, 5)
    scene.demand("so", holds=True)
    assert scene.holds
    scene.equal("wrong", 5, 6)
    scene.at_most("too high", 1_001, 1_000)
    scene.at_least("too low", 5, 6)
    scene.demand("not so", holds=False)
    assert scene.problems == [
        "wrong: 5, not = 6",
        "too high: 1,001, not ≤ 1,000",
        "too low: 5, not ≥ 6",
        "not so: NO, not yes",
    ]
    text = shown(DemoReport("all of it", [scene, scene]))
    assert "✗ = 6" in text and "DOES NOT HOLD" in text and "…" not in text
    assert not DemoReport("all of it", [scene, scene]).converged
    assert not DemoReport("all of it").converged


def test_a_problem_is_shown_as_it_is_written() -> None:
    scene = SceneFigures("one", "A scene")
    scene.stop(DemoError("the edge ended: [/srv]"))
    scene.stop(NotReached("no [bold] record"))
    text = shown(DemoReport("all of it", [scene]))
    assert "the edge ended: [/srv]" in text and "no [bold] record" in text


def test_a_scene_tells_what_it_did_not_reach_from_what_was_wrong() -> None:
    scene = SceneFigures("one", "A scene")
    scene.stop(NotReached("not reached in time: a miracle; nothing changed for 5 s"))
    assert not scene.holds
    assert outcome_text(scene.problems, scene.unreached, good="holds") == "not reached in time"
    scene.stop(DemoError("the edge ended"))
    assert outcome_text(scene.problems, scene.unreached) == "NO"


def test_the_exit_status_says_that_something_did_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: DemoSize, stage: DemoStage) -> DemoReport:
        stage.show("a chapter")
        scene = SceneFigures("one", "A scene")
        scene.demand("so", holds=False)
        return DemoReport("all of it", [scene])

    flags, kafka, results = DemoFlags(), ClusterFlags(stack=str(tmp_path)), Results(json=True)
    with pytest.raises(typer.Exit) as ended:
        present(flags, kafka, results, DemoSize(), fail)
    assert ended.value.exit_code == 3
    assert json.loads(capsys.readouterr().out)["converged"] is False


PLAN = make_plan(2, 40, 3)
WANTED = run._wanted(PLAN)
PEER_IDS = (bytes([1]) * 32, bytes([2]) * 32)


class Standing:
    """An actor as far as the check of convergence looks at it; it holds nothing."""

    def __init__(self, number: int) -> None:
        self.plan = PLAN.peers[number]
        self.peer = SimpleNamespace(peer_id=PEER_IDS[number])
        self.latencies_ms: list[float] = []
        self.repeated = 0
        self.taken: dict[Any, int] = {}

    def held(self) -> list[Any]:
        return []


ACTORS: list[Any] = [Standing(0), Standing(1)]


def evidence(**changed: Any) -> Evidence:
    """All as it should be, but for what is changed."""
    heights = {log: height for log, (_, height) in WANTED.items()}
    settled: dict[str, Any] = {
        "wanted": WANTED,
        "logs": list(signed_entries(PLAN).items()),
        "vectors": Vectors({peer_id: dict(heights) for peer_id in PEER_IDS}),
        "rejected": RejectedSummary({"bamboo.fork": 1}, {PLAN.fork.log}),
        "blocks": BlockAudit((), 0, 0),
        "documents": DocumentAudit(),
    }
    return Evidence(**(settled | changed))


def judged(gathered: Evidence) -> SceneFigures:
    west, east = ACTORS
    edits = ConcurrentEdits((west, east), PLAN.editors, {})
    return check_convergence(
        PLAN, ACTORS, gathered, Timings(1.0, 1.0, ConnectorStart(1.0, 1)), FinishedSessions(""), edits
    )


def test_nothing_is_unmet_when_all_is_as_it_should_be() -> None:
    assert evidence().unmet(PLAN, ACTORS) == []


def test_every_condition_is_named_with_what_it_lacks() -> None:
    log = next(log for log, (_, height) in WANTED.items() if height > 1)
    gathered = evidence(
        logs=list(signed_entries(PLAN).items())[3:],
        rejected=RejectedSummary({}, set()),
        blocks=BlockAudit((), 5, 0),
        documents=DocumentAudit(documents=9, behind=2),
    )
    gathered.vectors.by_peer[PEER_IDS[1]][log] -= 1
    gap = f"{log[0].hex()}/{log[1]}: {WANTED[log][1] - 1} of {WANTED[log][1]}"
    assert gathered.unmet(PLAN, ACTORS) == [
        "logs lacks 3 entries",
        "the forked log is not on rejected",
        f"peer-2 is 1 entries behind in version-vectors ({gap})",
        "blocks is behind logs in 5 logs",
        "the topic documents is behind in 2 documents",
    ]


def test_what_no_waiting_mends_is_wrong() -> None:
    documents = DocumentAudit(documents=9, behind=2, differing=1)
    scene = judged(evidence(blocks=BlockAudit((), 3, 0, ahead_logs=1), documents=documents))
    assert "documents alike, peers and topic: 6, not = 7" in scene.problems
    assert "blocks has more than logs of 1 logs" in scene.problems
    assert "sessions of set reconciliation: 0, not ≥ 1" in scene.problems
    assert "blocks is behind logs in 2 logs" in scene.unreached
    assert outcome_text(scene.problems, scene.unreached) == "NO"
    assert outcome_text([], scene.unreached) == "not reached in time"


async def test_a_wait_whose_time_is_up_tells_at_once_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gathered = evidence(blocks=BlockAudit((), 1, 0))
    monkeypatch.setattr(run, "gather", lambda *_: gathered)
    lines: list[str] = []
    kafka: Any = None
    story = run.P2pandaStory(
        DemoStage(tmp_path, lines.append, -1.0),
        PLAN,
        kafka,
        [],
        [],
        ACTORS,
        dict(WANTED),
        LiveClock(),
        FinishedSessions("catch-up"),
        random.Random(1),
    )
    assert await story.settled({}) is gathered
    why = "not reached in time: blocks is behind logs in 1 logs; nothing changed for -1 s"
    assert (story.gave_up, lines) == ({"catch-up": why}, [why])


async def test_a_wait_goes_on_while_anything_changes(tmp_path: Path) -> None:
    looks = 0

    def holds() -> bool:
        nonlocal looks
        looks += 1
        return looks == 20

    stage = DemoStage(tmp_path, lambda _: None, -1.0, watched=[lambda: looks])
    await stage.until(holds, "the twentieth look", step_s=0.0)
    with pytest.raises(NotReached, match="not reached in time: more; nothing changed for -1 s"):
        await stage.until(lambda: False, "more", step_s=0.0)


async def test_the_end_of_something_is_waited_for_while_anything_changes_and_it_is_cancelled_then(
    tmp_path: Path,
) -> None:
    looks = itertools.count()
    done = asyncio.Event()

    def progress() -> int:
        look = next(looks)
        if look == 3:
            done.set()
        return look

    stage = DemoStage(tmp_path, lambda _: None, -1.0, watched=[progress])
    assert await stage.within(done.wait(), "three looks")
    stage.watched.clear()
    never = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(NotReached, match="a miracle"):
        await stage.within(never, "a miracle")
    assert never.cancelling()
