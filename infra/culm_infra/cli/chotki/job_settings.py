"""Builds the settings of the job `chotki` from the command line's."""

from __future__ import annotations

from culm_infra.settings import Settings
from culm_streaming.chotki.job import ChotkiJobSettings


def chotki_settings(settings: Settings) -> ChotkiJobSettings:
    """Settings of the job `chotki`."""
    return ChotkiJobSettings(max_offsets_per_trigger=settings.job.max_offsets_per_trigger)
