"""`culm demo dag`, small: under one policy, on the tests' broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.demo.dag.run import play
from culm_infra.demo.dag.size import DagDemoSize
from culm_infra.demo.kit.stage import DemoStage
from culm_topics.kafka.clients import KafkaSettings


@pytest.mark.kafka
@pytest.mark.spark
async def test_all_replicas_end_with_one_order_and_tip(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    chapters: list[str] = []
    stage = DemoStage(tmp_path, chapters.append, 300.0, kafka)
    report = await play(DagDemoSize(file_mb=3, policies=["bearer"]), stage)
    [scene] = report.scenes
    assert scene.problems == []
    assert report.converged
    [replicas] = scene.listings
    names = [row["name"] for row in replicas.rows]
    assert names == ["ada", "ben", "cem", "dora", "edge west", "edge east", "the job dag"]
    assert any("SIGKILL" in chapter for chapter in chapters)
    assert any("kill -9 of the job dag" in chapter for chapter in chapters)
