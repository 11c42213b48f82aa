"""What the settings of the command line say to the job `dag`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm_infra.settings import Settings
    from culm_streaming.dag.job import DagJobSettings


def dag_settings(settings: Settings) -> DagJobSettings:
    """Of the job `dag`."""
    from culm_streaming.dag.job import DagJobSettings
    from culm_streaming.dag.settings import DagLayout

    section = settings.job.dag
    return DagJobSettings(
        verdict=section.verdict(),
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        max_chunks_per_trigger=section.max_chunks_per_trigger,
        layout=DagLayout(shards=settings.job.shards),
    )
