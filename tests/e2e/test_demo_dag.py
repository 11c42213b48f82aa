"""`culm demo dag`, small: under one policy, on the tests' broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.demo.dag.plan import DagDemoSettings
from culm_infra.demo.dag.run import play
from culm_topics.kafka.clients import KafkaSettings


@pytest.mark.kafka
@pytest.mark.spark
async def test_all_replicas_end_with_one_order_and_tip(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    settings = DagDemoSettings(
        tmp_path, file_mb=3, small_kb=2_500, policies=("bearer",), kafka=kafka, timeout_s=300
    )
    chapters: list[str] = []
    report = await play(settings, chapters.append)
    [policy] = report.policies
    assert policy.scene.problems == []
    assert report.converged
    names = [one.name for one in policy.witnesses]
    assert names == ["ada", "ben", "cem", "dora", "edge west", "edge east", "the job dag"]
    assert any("SIGKILL" in chapter for chapter in chapters)
    assert any("kill -9 of the job dag" in chapter for chapter in chapters)
