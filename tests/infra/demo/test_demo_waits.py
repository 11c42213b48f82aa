"""A demo that gives up waiting for the topics says which conditions do not hold, by name and number."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.report import verdict
from culm_infra.demo.kit.stage import Stage
from culm_infra.demo.p2panda import run
from culm_infra.demo.p2panda.audit import BlockAudit, Refusals
from culm_infra.demo.p2panda.cast import LiveClock
from culm_infra.demo.p2panda.judge import ConnectorStart, Evidence, Timings, judge, signed_entries
from culm_infra.demo.p2panda.plan import make_plan
from culm_infra.demo.p2panda.sessions import SessionBook
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


def judged(found: Evidence) -> SceneFigures:
    return judge(PLAN, ACTORS, found, Timings(1.0, 1.0, ConnectorStart(1.0, 1)), SessionBook(""))


def test_nothing_is_unmet_when_all_is_as_it_should_be() -> None:
    assert evidence().unmet(PLAN, ACTORS) == []


def test_every_condition_is_named_with_what_it_lacks() -> None:
    log = next(log for log, (_, height) in WANTED.items() if height > 1)
    found = evidence(
        logs=list(signed_entries(PLAN).items())[3:],
        refusals=Refusals({}, set()),
        blocks=BlockAudit((), 5, 0),
    )
    found.vectors.by_peer[PEER_IDS[1]][log] -= 1
    gap = f"{log[0].hex()}/{log[1]}: {WANTED[log][1] - 1} of {WANTED[log][1]}"
    assert found.unmet(PLAN, ACTORS) == [
        "logs lacks 3 entries",
        "the forked log is not on rejected",
        f"peer-2 is 1 entries behind in version-vectors ({gap})",
        "blocks is behind logs in 5 logs",
    ]


def test_what_no_waiting_mends_is_wrong() -> None:
    scene = judged(evidence(blocks=BlockAudit((), 3, 0, ahead_logs=1)))
    assert "blocks has more than logs of 1 logs" in scene.problems
    assert "sessions of set reconciliation: 0, not ≥ 1" in scene.problems
    assert "blocks is behind logs in 2 logs" in scene.unreached
    assert verdict(scene.problems, scene.unreached) == "NO"
    assert verdict([], scene.unreached) == "not reached in time"


async def test_a_wait_whose_time_is_up_tells_at_once_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = evidence(blocks=BlockAudit((), 1, 0))
    monkeypatch.setattr(run, "gather", lambda *_: found)
    lines: list[str] = []
    kafka: Any = None
    story = run.Play(
        Stage(tmp_path, lines.append, -1.0),
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
    why = "not reached in time: blocks is behind logs in 1 logs; nothing changed for -1 s"
    assert (story.gave_up, lines) == ({"catch-up": why}, [why])


async def test_a_wait_goes_on_while_anything_changes(tmp_path: Path) -> None:
    looks = 0

    def holds() -> bool:
        nonlocal looks
        looks += 1
        return looks == 20

    stage = Stage(tmp_path, lambda _: None, -1.0, watched=[lambda: looks])
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

    stage = Stage(tmp_path, lambda _: None, -1.0, watched=[progress])
    assert await stage.within(done.wait(), "three looks")
    stage.watched.clear()
    never = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(NotReached, match="a miracle"):
        await stage.within(never, "a miracle")
    assert never.cancelling()
