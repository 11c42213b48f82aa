"""All scenes, one after the other, each judged for itself."""

from __future__ import annotations

import time

from culm_infra.demo.bamboo.scenes.table import SCENES, BambooScene
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport
from culm_infra.demo.kit.stage import Stage
from culm_infra.errors import NotReached


async def play(size: BambooDemoSize, stage: Stage) -> DemoReport:
    """Play the scenes. One that cannot go on says why, and the others are played all the same."""
    started_s = time.monotonic()
    on, report = BambooStage(stage, size), DemoReport("every figure as it has to be")
    for scene in SCENES:
        if not size.scenes or scene.name in size.scenes:
            stage.show(scene.title)
            report.scenes.append(await _played(scene, on))
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
