"""`culm demo bamboo`, small: every scene holds, and a figure or a wait that does not is told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.results import Results
from culm_infra.cli.root import run
from culm_infra.demo.bamboo.run import play
from culm_infra.demo.bamboo.scenes.table import SCENES
from culm_infra.demo.bamboo.size import SCENES as NAMES
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.report import DemoReport
from culm_infra.demo.kit.stage import Stage


def shown(report: DemoReport) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    for table in report.tables():
        console.print(table)
    return console.export_text()


@pytest.mark.parametrize("name", [scene.name for scene in SCENES if scene.name != "edges"])
async def test_every_scene_holds(tmp_path: Path, name: str) -> None:
    size = BambooDemoSize(entries=600, payload_mb=8, live=5, scenes=[name])
    chapters: list[str] = []
    report = await play(size, Stage(tmp_path, chapters.append, 300.0))
    [scene] = report.scenes
    assert report.converged, scene.problems
    assert scene.name == name and scene.title in chapters
    assert any(figure.rule for figure in scene.figures), "a scene demands something of what it shows"
    assert json.loads(json.dumps(report.as_json()))["converged"] is True


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
    text = shown(DemoReport("all of it", [scene]))
    assert "✗ = 6" in text and "DOES NOT HOLD" in text and "…" not in text
    assert not DemoReport("all of it", [scene]).converged
    assert not DemoReport("all of it").converged


def test_the_command_plays_one_scene_and_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "bamboo", "--scene", "live", "--live", "3", "--json"]) == 0
    [document] = map(json.loads, capsys.readouterr().out.splitlines())
    assert document["converged"] and [scene["name"] for scene in document["scenes"]] == ["live"]


def test_a_scene_that_there_is_not_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "bamboo", "--scene", "storm"]) == 2
    assert "sparse, backfill" in capsys.readouterr().err


def test_the_exit_status_says_that_something_did_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: BambooDemoSize, stage: Stage) -> DemoReport:
        stage.show("a chapter")
        scene = SceneFigures("one", "A scene")
        scene.demand("so", holds=False)
        return DemoReport("all of it", [scene])

    flags, kafka, results = DemoFlags(directory=tmp_path), KafkaFlags(), Results(json=True)
    with pytest.raises(typer.Exit) as ended:
        present(flags, kafka, results, BambooDemoSize(), fail)
    assert ended.value.exit_code == 3
    assert json.loads(capsys.readouterr().out)["converged"] is False


def test_the_command_names_the_scenes_that_there_are() -> None:
    assert tuple(scene.name for scene in SCENES) == NAMES
