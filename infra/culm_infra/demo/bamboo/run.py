"""The scenes in the order in which they are played, each with its own figures."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from culm_infra.demo.bamboo.scenes import (
    credit,
    failover,
    large_payload,
    live,
    long_log,
    small_device,
    two_edges,
    unverified,
)
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport, SceneFigures
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.errors import NotReached


@dataclass(frozen=True, slots=True)
class BambooScene:
    """One scene: its name, its title, and the function that plays it."""

    name: str
    title: str
    play: Callable[[BambooStage, SceneFigures], Awaitable[None]]


SCENES: Final = (
    BambooScene(
        "sparse", "A sparse reader joins a long log and proves two entries", long_log.prove_two_entries
    ),
    BambooScene("backfill", "Entries first, the payloads of a range later", long_log.fetch_deferred_payloads),
    BambooScene("both-ways", "Two peers fill each other's gaps in one request", unverified.fill_gaps),
    BambooScene("greedy", "A corrupted payload is passed on, and apologised for", unverified.pass_on),
    BambooScene("large", "A large payload goes on after kill -9, beside other entries", large_payload.play),
    BambooScene("live", "An open range carries new entries", live.play),
    BambooScene("credit", "Credit is exhausted, and comes back", credit.play),
    BambooScene("failover", "One of two sources falls silent", failover.play),
    BambooScene(
        "device", "A small device learns of everything, and holds next to nothing", small_device.play
    ),
    BambooScene("edges", "Logs go from peer to peer over two edges and Kafka", two_edges.play),
)


async def play(size: BambooDemoSize, stage: DemoStage) -> DemoReport:
    """Play the scenes. A scene that cannot continue records the reason; the others are still played."""
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
