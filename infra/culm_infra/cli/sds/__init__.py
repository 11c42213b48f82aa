"""`culm sds`: one module per command, and the parts that several of them share.

- `join`, `send`, `tail`, `status`, `fetch`, `transfer`, `reset_clock`: commands; `demo` is `culm demo sds`.
- `channel`, `participation`: how commands take part in channels. `lines`: how a channel is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_infra.cli.kit.noun import noun

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_streaming.sds.job import SdsJobSettings
    from culm_streaming.sds_index import SdsIndexSettings

app = noun(
    "Channels of SDS: send and follow messages, show their state, and fetch messages from the store.",
    {
        "join": "sds.join:join",
        "send": "sds.send:send",
        "tail": "sds.tail:tail",
        "status": "sds.status:status",
        "fetch": "sds.fetch:fetch",
        "transfer": "sds.transfer:transfer",
        "reset-clock": "sds.reset_clock:reset_clock",
    },
)


def sds_settings(settings: CulmSettings) -> SdsJobSettings:
    """Build the settings of the job `sds`."""
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


def sds_index_settings(settings: CulmSettings) -> SdsIndexSettings:
    """Build the settings of the job `sds-index`."""
    from culm_streaming.sds_index import SdsIndexSettings

    return SdsIndexSettings(max_offsets_per_trigger=settings.job.sds.max_offsets_per_trigger)
