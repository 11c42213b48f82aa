"""A demo that gives up waiting for the topics says which conditions do not hold, by name and number."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport, verdict
from culm_infra.demo.kit.stage import Stage
from culm_infra.demo.kit.waiting import wait_for, wait_until
from culm_infra.demo.p2panda import run
from culm_infra.demo.p2panda.audit import BlockAudit, Refusals
from culm_infra.demo.p2panda.cast import LiveClock
from culm_infra.demo.p2panda.judge import ConnectorStart, Evidence, Timings, judge, signed_entries
from culm_infra.demo.p2panda.plan import make_plan
from culm_infra.demo.p2panda.sessions import SessionBook
from culm_infra.demo.p2panda.waits import SHOWN_LOGS, Unmet, Wait, listed
from culm_infra.errors import NotReached
from culm_topics.logs.version_vectors import Vectors

PLAN = make_plan(2, 40, 3)
WANTED = run._wanted(PLAN)
PEER_IDS = (bytes([1]) * 32, bytes([2]) * 32)


class Standing:
    """An actor as far as the verdict looks at it; it holds nothing."""

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
        "refusals": Refusals({"bamboo.fork": 1}, {PLAN.fork.log}),
        "blocks": BlockAudit((), 0, 0),
    }
    return Evidence(**(settled | changed))


def judged(found: Evidence, waits: list[Wait]) -> SceneFigures:
    return judge(PLAN, ACTORS, found, Timings(1.0, 1.0, ConnectorStart(1.0, 1)), SessionBook(""), waits)


def test_nothing_is_unmet_when_all_is_as_it_should_be() -> None:
    assert evidence().unmet(PLAN, ACTORS) == ()


def test_every_condition_is_named_with_what_it_lacks() -> None:
    vectors = Vectors({PEER_IDS[0]: {log: height for log, (_, height) in WANTED.items()}})
    found = evidence(
        logs=list(signed_entries(PLAN).items())[3:],
        vectors=vectors,
        refusals=Refusals({}, set()),
        blocks=BlockAudit((), 5, 0),
    )
    unmet = found.unmet(PLAN, ACTORS)
    interest = found.logs_of(ACTORS[1])
    assert [(one.topic, one.peer, one.count, one.unit) for one in unmet] == [
        ("logs", None, 3, "entries"),
        ("rejected", None, 1, "forks"),
        ("version-vectors", "peer-2", sum(WANTED[log][1] for log in interest), "entries"),
        ("blocks", None, 5, "logs"),
    ]
    assert len(unmet[2].logs) == min(SHOWN_LOGS, len(interest))


def test_a_log_that_a_vector_is_behind_of_is_named_with_both_heights() -> None:
    log = next(log for log, (_, height) in WANTED.items() if height > 1)
    found = evidence()
    found.vectors.by_peer[PEER_IDS[1]][log] -= 1
    height = WANTED[log][1]
    (unmet,) = found.unmet(PLAN, ACTORS)
    assert str(unmet) == (
        f"version-vectors of peer-2: 1 entry ({log[0].hex()}/{log[1]}: {height - 1} of {height})"
    )


def test_the_report_says_what_a_wait_ended_without_in_text_and_as_data() -> None:
    found = evidence(blocks=BlockAudit((), 2, 0), refusals=Refusals({}, set()))
    missing = found.unmet(PLAN, ACTORS)
    scene = judged(found, [Wait("after kill -9", 3.0, ()), Wait("empty index", 120.4, missing)])
    made = DemoReport("identical bytes everywhere", [scene])
    figures = json.loads(json.dumps(made.as_json()))["scenes"][0]["figures"]
    gave_up = {one["label"]: one["value"] for one in figures if one["label"].startswith("gave up")}
    without = "after 120 s without rejected: 1 fork, blocks: 2 logs"
    assert gave_up == {"gave up waiting (empty index)": without}
    text = io.StringIO()
    console = Console(file=text, width=200)
    for table in made.tables():
        console.print(table)
    assert {"blocks is behind logs in 2 logs", "0 forked logs found, 1 made"} <= set(scene.unreached)
    assert scene.problems == ["sessions of set reconciliation: 0, not ≥ 1"]
    assert without in text.getvalue()


async def test_a_wait_whose_time_is_up_tells_at_once_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = evidence(blocks=BlockAudit((), 1, 0))
    monkeypatch.setattr(run, "gather", lambda *_: found)
    lines: list[str] = []
    kafka: Any = None
    stage = Stage(tmp_path, lines.append, -1.0)
    story = run.Play(
        stage,
        PLAN,
        kafka,
        [],
        [],
        ACTORS,
        dict(WANTED),
        LiveClock(),
        SessionBook("catch-up"),
        random.Random(1),
    )
    assert await story.settled() is found
    assert [(wait.chapter, wait.missing) for wait in story.waits] == [
        ("catch-up", (Unmet("blocks", None, 1, "logs"),))
    ]
    assert lines == ["not reached in time: blocks: 1 log; nothing changed for -1 s"]


def test_what_no_waiting_mends_is_wrong() -> None:
    made = judged(evidence(blocks=BlockAudit((), 3, 0, ahead_logs=1)), [])
    assert "blocks has more than logs of 1 logs" in made.problems
    assert "blocks is behind logs in 2 logs" in made.unreached
    assert verdict(made.problems, made.unreached) == "NO"


async def test_a_wait_goes_on_while_anything_changes() -> None:
    looks = 0

    def holds() -> bool:
        nonlocal looks
        looks += 1
        return looks == 20

    await wait_until(holds, "the twentieth look", limit_s=-1.0, progress=lambda: looks, step_s=0.0)
    with pytest.raises(NotReached, match="not reached in time: more; nothing changed for -1 s"):
        await wait_until(lambda: False, "more", limit_s=-1.0, progress=lambda: looks, step_s=0.0)


async def test_the_end_of_something_is_waited_for_while_anything_changes_and_it_is_cancelled_then() -> None:
    looks = itertools.count()
    done = asyncio.Event()

    def progress() -> int:
        look = next(looks)
        if look == 3:
            done.set()
        return look

    assert await wait_for(done.wait(), "three looks", limit_s=-1.0, progress=progress)
    never = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(NotReached, match="a miracle"):
        await wait_for(never, "a miracle", limit_s=-1.0, progress=lambda: 0)
    assert never.cancelling()


def test_a_scene_tells_what_it_did_not_reach_from_what_was_wrong() -> None:
    scene = SceneFigures("one", "A scene")
    scene.stop(NotReached("not reached in time: a miracle; nothing changed for 5 s"))
    assert not scene.holds
    assert verdict(scene.problems, scene.unreached, good="holds") == "not reached in time"
    scene.stop(DemoError("the edge ended"))
    assert verdict(scene.problems, scene.unreached) == "NO"


def test_what_is_missing_is_told_on_one_line() -> None:
    assert listed([Unmet("logs", None, 2, "entries"), Unmet("rejected", None, 1, "forks")]) == (
        "logs: 2 entries, rejected: 1 fork"
    )
