"""What the settings of the command line say to the jobs `sds` and `sds-index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm_infra.settings import Settings
    from culm_streaming.sds.job import SdsJobSettings
    from culm_streaming.sds_index import SdsIndexSettings


def sds_settings(settings: Settings) -> SdsJobSettings:
    """Of the job `sds`."""
    from culm_streaming.sds.job import SdsJobSettings
    from culm_streaming.sds.settings import ChannelsSettings

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
    """Of the job `sds-index`."""
    from culm_streaming.sds_index import SdsIndexSettings

    return SdsIndexSettings(max_offsets_per_trigger=settings.job.sds.max_offsets_per_trigger)
