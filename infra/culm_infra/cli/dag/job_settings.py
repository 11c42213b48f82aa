"""Builds the settings of the job `dag` from the command line's."""

from __future__ import annotations

from culm_infra.settings import Settings
from culm_streaming.dag.job import DagJobSettings
from culm_streaming.dag.settings import DagLayout


def dag_settings(settings: Settings) -> DagJobSettings:
    """Settings of the job `dag`."""
    section = settings.job.dag
    return DagJobSettings(
        verdict=section.verdict(),
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        max_chunks_per_trigger=section.max_chunks_per_trigger,
        layout=DagLayout(shards=settings.job.shards),
    )
