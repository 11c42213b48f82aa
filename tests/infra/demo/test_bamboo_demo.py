"""`culm demo bamboo`, small: every scene holds, and a figure or a wait that does not is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from culm_infra.cli.root import run
from culm_infra.demo.bamboo.run import play
from culm_infra.demo.bamboo.scenes.table import SCENES
from culm_infra.demo.bamboo.size import SCENES as NAMES
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.kit.stage import Stage


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


def test_the_command_plays_one_scene_and_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "bamboo", "--scene", "live", "--live", "3", "--json"]) == 0
    [document] = map(json.loads, capsys.readouterr().out.splitlines())
    assert document["converged"] and [scene["name"] for scene in document["scenes"]] == ["live"]


def test_the_command_names_the_scenes_that_there_are() -> None:
    assert tuple(scene.name for scene in SCENES) == NAMES
