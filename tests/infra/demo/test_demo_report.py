"""The report of every demo: what it says to people fits a terminal, and to programs is plain data."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from rich.console import Console

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import Results
from culm_infra.demo.dag.run import REPLICAS
from culm_infra.demo.kit.figures import Listing, SceneFigures
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport, verdict
from culm_infra.demo.kit.size import DemoSize
from culm_infra.demo.kit.stage import Stage
from culm_infra.errors import NotReached
from tests.infra.demo import test_chotki_demo, test_dag_demo, test_demo_waits, test_sds_demo_verdict


def shown(report: DemoReport) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    for table in report.tables():
        console.print(table)
    return console.export_text()


def p2panda() -> SceneFigures:
    return test_demo_waits.judged(test_demo_waits.evidence())


def sds() -> SceneFigures:
    people = test_sds_demo_verdict.books()
    scene = test_sds_demo_verdict.judged(people, test_sds_demo_verdict.pipeline(people), [])
    _, participants, channels = scene.listings
    participants.rows[0].update(name="general-hosted-12", held=11_366, ack_p99_ms=144_893.0)  # type: ignore[attr-defined]
    channels.rows[0].update(broadcast_bytes=123_456_789, repairs=1_234)  # type: ignore[attr-defined]
    return scene


def chotki() -> SceneFigures:
    ada = test_chotki_demo.editor("ada", 0xADA)
    ada.new_object(ada.new_class())
    store = ada.peer.replica.store.values()
    return test_chotki_demo.scene_of([store, store], Counter())


def dag() -> SceneFigures:
    said = [
        test_dag_demo.witness("ada", *"abcdefghij" * 2),
        test_dag_demo.witness("edge west", "bafyrei" * 9, heads=None),
    ]
    rows = [one.as_row() for one in said]
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
    assert set(document["scenes"][0]) >= {one.name for one in report.scenes[0].listings}


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


def test_a_scene_tells_what_it_did_not_reach_from_what_was_wrong() -> None:
    scene = SceneFigures("one", "A scene")
    scene.stop(NotReached("not reached in time: a miracle; nothing changed for 5 s"))
    assert not scene.holds
    assert verdict(scene.problems, scene.unreached, good="holds") == "not reached in time"
    scene.stop(DemoError("the edge ended"))
    assert verdict(scene.problems, scene.unreached) == "NO"


def test_the_exit_status_says_that_something_did_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: DemoSize, stage: Stage) -> DemoReport:
        stage.show("a chapter")
        scene = SceneFigures("one", "A scene")
        scene.demand("so", holds=False)
        return DemoReport("all of it", [scene])

    flags, kafka, results = DemoFlags(directory=tmp_path), KafkaFlags(), Results(json=True)
    with pytest.raises(typer.Exit) as ended:
        present(flags, kafka, results, DemoSize(), fail)
    assert ended.value.exit_code == 3
    assert json.loads(capsys.readouterr().out)["converged"] is False
