"""All scenes, one after the other, each judged for itself."""

from __future__ import annotations

import time

from culm_infra.demo.bamboo.report import BambooReport
from culm_infra.demo.bamboo.scenes.table import SCENES, BambooScene
from culm_infra.demo.bamboo.stage import BambooDemoSettings, BambooStage
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.processes import DemoError, Show
from culm_infra.errors import NotReached


async def play(settings: BambooDemoSettings, show: Show) -> BambooReport:
    """Play the scenes. One that cannot go on says why, and the others are played all the same."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    stage, report = BambooStage(settings, show), BambooReport()
    for scene in SCENES:
        if not settings.scenes or scene.name in settings.scenes:
            show(scene.title)
            report.scenes.append(await _played(scene, stage))
    report.total_s = time.monotonic() - started_s
    return report


async def _played(scene: BambooScene, stage: BambooStage) -> SceneFigures:
    figures, started_s = SceneFigures(scene.name, scene.title), time.monotonic()
    try:
        await scene.play(stage, figures)
    except (DemoError, NotReached) as error:
        figures.stop(error)
    figures.duration_s = time.monotonic() - started_s
    return figures
