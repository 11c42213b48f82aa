"""From the settings of the command line to those of each job; one that the table lacks runs with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm_infra.cli.loading import load
from culm_infra.protocols import JOB_SETTINGS

if TYPE_CHECKING:
    from culm_infra.settings import Settings


def job_settings(settings: Settings, jobs: tuple[str, ...]) -> dict[str, Any]:
    """The settings of those of the jobs that the command line has any for."""
    return {job: load(JOB_SETTINGS[job])(settings) for job in jobs if job in JOB_SETTINGS}
