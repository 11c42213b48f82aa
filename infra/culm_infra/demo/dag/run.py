"""All of it: the story under each policy, each judged for itself."""

from __future__ import annotations

import asyncio
import time

from culm_infra.demo.dag.plan import DagDemoSettings
from culm_infra.demo.dag.report import DagReport, PolicyFigures
from culm_infra.demo.dag.stage import staged
from culm_infra.demo.dag.story import play_story
from culm_infra.demo.kit.figures import SceneFigures
from culm_infra.demo.kit.processes import Show


async def play(settings: DagDemoSettings, show: Show) -> DagReport:
    """Play the story under each policy. Raises DemoError when nothing can be played."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    report = DagReport()
    async with staged(settings, show) as deployments:
        for deployment in deployments:
            began_s = time.monotonic()
            figures = SceneFigures(deployment.policy, f"The policy {deployment.policy}")
            show(f"{figures.title}: the Spark job dag starts beside the edges")
            deployment.job.start()
            try:
                witnesses = await play_story(settings, deployment, figures, show)
            finally:
                await asyncio.to_thread(deployment.job.stop)
            figures.duration_s = time.monotonic() - began_s
            report.policies.append(PolicyFigures(figures, list(witnesses)))
    report.total_s = time.monotonic() - started_s
    return report
