"""From the settings of the command line to those of each job; a job that is not here runs with its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from culm_infra.settings import Settings


def job_settings(settings: Settings, jobs: tuple[str, ...]) -> dict[str, Any]:
    """The settings of those of the jobs that the command line has any for."""
    return {job: _OF_JOB[job](settings) for job in jobs if job in _OF_JOB}


def _logs(settings: Settings) -> Any:
    from culm_streaming.logs.job import LogsSettings
    from culm_streaming.logs.settings import ChainSettings

    return LogsSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        chain=ChainSettings(shards=settings.job.shards),
    )


def _version_vectors(settings: Settings) -> Any:
    from culm_streaming.version_vectors import VersionVectorsSettings

    return VersionVectorsSettings(max_offsets_per_trigger=settings.job.max_offsets_per_trigger)


def _blocks(settings: Settings) -> Any:
    from culm_streaming.blocks.job import BlocksSettings
    from culm_streaming.blocks.settings import HeightsSettings

    return BlocksSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        heights=HeightsSettings(block_bits=settings.block_bits, lifts=settings.job.lifts),
    )


def _coverage(settings: Settings) -> Any:
    from culm_streaming.coverage.job import CoverageSettings
    from culm_streaming.coverage.settings import CoverageLayout

    return CoverageSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        layout=CoverageLayout(shards=settings.job.shards),
    )


def _sds(settings: Settings) -> Any:
    from culm_streaming.sds.job import SdsJobSettings
    from culm_streaming.sds.settings import ChannelsSettings

    return SdsJobSettings(
        max_offsets_per_trigger=settings.job.sds.max_offsets_per_trigger,
        interval_ms=settings.job.sds.interval_ms,
        channels=ChannelsSettings(
            cache_weight=settings.job.sds.cache_entries,
            filter_bytes=settings.job.sds.filter_bytes,
            shard_filter_bytes=settings.job.sds.shard_filter_bytes,
        ),
    )


def _dag(settings: Settings) -> Any:
    from culm_streaming.dag.job import DagJobSettings
    from culm_streaming.dag.settings import DagLayout

    section = settings.job.dag
    return DagJobSettings(
        verdict=section.verdict(),
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        max_chunks_per_trigger=section.max_chunks_per_trigger,
        layout=DagLayout(shards=settings.job.shards),
    )


def _sds_index(settings: Settings) -> Any:
    from culm_streaming.sds_index import SdsIndexSettings

    return SdsIndexSettings(max_offsets_per_trigger=settings.job.sds.max_offsets_per_trigger)


_OF_JOB: Final[dict[str, Callable[[Settings], Any]]] = {
    "logs": _logs,
    "version-vectors": _version_vectors,
    "blocks": _blocks,
    "coverage": _coverage,
    "sds": _sds,
    "sds-index": _sds_index,
    "dag": _dag,
}
