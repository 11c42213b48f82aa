"""All of it: the story under each policy, each judged for itself."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from culm_infra.columns import Columns, of
from culm_infra.demo.dag.size import DagDemoSize
from culm_infra.demo.dag.stage import staged
from culm_infra.demo.dag.story import play_story
from culm_infra.demo.kit.figures import Listing, SceneFigures
from culm_infra.demo.kit.report import DemoReport
from culm_infra.demo.kit.stage import Stage

REPLICAS: Final[Columns] = {
    "who": "name",
    "where": "place",
    "publishes": of("order", len),
    "order": "order_digest",
    "tip": lambda row: (row["tip"] or "–")[-8:],
    "heads": lambda row: row["heads_digest"] or "–",
}


async def play(size: DagDemoSize, stage: Stage) -> DemoReport:
    """Play the story under each policy. Raises DemoError when nothing can be played."""
    started_s = time.monotonic()
    report = DemoReport("one order and tip everywhere")
    async with staged(size, stage) as deployments:
        for deployment in deployments:
            began_s = time.monotonic()
            scene = SceneFigures(deployment.policy, f"The policy {deployment.policy}")
            stage.show(f"{scene.title}: the Spark job dag starts beside the edges")
            deployment.job.start()
            try:
                witnesses = await play_story(size, stage, deployment, scene)
            finally:
                await asyncio.to_thread(deployment.job.stop)
            if witnesses:
                title = f"In the end, {scene.name}: what each replica says"
                rows = [one.as_row() for one in witnesses]
                scene.listings.append(Listing("replicas", title, REPLICAS, rows, words=2))
            scene.duration_s = time.monotonic() - began_s
            report.scenes.append(scene)
    report.total_s = time.monotonic() - started_s
    return report
