"""Builds the settings of the jobs of replicated logs from the command line's."""

from __future__ import annotations

from culm_infra.settings import Settings
from culm_streaming.blocks.job import BlocksSettings
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.coverage.job import CoverageSettings
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.logs.job import LogsSettings
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.version_vectors import VersionVectorsSettings


def logs_settings(settings: Settings) -> LogsSettings:
    """Settings of the job `logs`."""
    return LogsSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        chain=ChainSettings(shards=settings.job.shards),
    )


def version_vectors_settings(settings: Settings) -> VersionVectorsSettings:
    """Settings of the job `version-vectors`."""
    return VersionVectorsSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_receipts_per_trigger=settings.job.version_vectors.max_receipts_per_trigger,
    )


def blocks_settings(settings: Settings) -> BlocksSettings:
    """Settings of the job `blocks`."""
    return BlocksSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_receipts_per_trigger=settings.job.blocks.max_receipts_per_trigger,
        heights=HeightsSettings(block_bits=settings.block_bits, lifts=settings.job.lifts),
    )


def coverage_settings(settings: Settings) -> CoverageSettings:
    """Settings of the job `coverage`."""
    section = settings.job.coverage
    return CoverageSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_fragments_per_trigger=section.max_fragments_per_trigger,
        max_holdings_per_trigger=section.max_holdings_per_trigger,
        max_payload_chunks_per_trigger=section.max_payload_chunks_per_trigger,
        layout=CoverageLayout(shards=settings.job.shards),
    )
