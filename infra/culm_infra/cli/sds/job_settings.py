"""Builds the settings of the jobs `sds` and `sds-index` from the command line's."""

from __future__ import annotations

from culm_infra.settings import Settings
from culm_streaming.sds.job import SdsJobSettings
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds_index import SdsIndexSettings


def sds_settings(settings: Settings) -> SdsJobSettings:
    """Settings of the job `sds`."""
    section = settings.job.sds
    return SdsJobSettings(
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        interval_ms=section.interval_ms,
        channels=ChannelsSettings(
            cache_weight=section.cache_entries,
            filter_bytes=section.filter_bytes,
            shard_filter_bytes=section.shard_filter_bytes,
        ),
    )


def sds_index_settings(settings: Settings) -> SdsIndexSettings:
    """Settings of the job `sds-index`."""
    return SdsIndexSettings(max_offsets_per_trigger=settings.job.sds.max_offsets_per_trigger)
