"""`culm logs`: `entries`, `status` and `blocks` read the topics, `index` the index of a connector.

`output` formats an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_infra.cli.kit.noun import noun

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_streaming.blocks.job import BlocksSettings
    from culm_streaming.coverage.job import CoverageSettings
    from culm_streaming.logs.job import LogsSettings
    from culm_streaming.version_vectors import VersionVectorsSettings

app = noun(
    "The replicated logs: follow, list, export; what peers hold of them, and a connector's index.",
    {
        "tail": "logs.entries:tail",
        "list": "logs.entries:list_",
        "export": "logs.entries:export",
        "status": "logs.status:status",
        "blocks": "logs.blocks:blocks",
        "repair": "logs.index:repair",
        "index": "logs.index:app",
    },
)


def logs_settings(settings: CulmSettings) -> LogsSettings:
    """Build the settings of the job `logs`."""
    from culm_streaming.logs.job import LogsSettings
    from culm_streaming.logs.settings import ChainSettings

    return LogsSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        chain=ChainSettings(shards=settings.job.shards),
    )


def version_vectors_settings(settings: CulmSettings) -> VersionVectorsSettings:
    """Build the settings of the job `version-vectors`."""
    from culm_streaming.version_vectors import VersionVectorsSettings

    return VersionVectorsSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_receipts_per_trigger=settings.job.version_vectors.max_receipts_per_trigger,
    )


def blocks_settings(settings: CulmSettings) -> BlocksSettings:
    """Build the settings of the job `blocks`."""
    from culm_streaming.blocks.job import BlocksSettings
    from culm_streaming.blocks.settings import HeightsSettings

    return BlocksSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_receipts_per_trigger=settings.job.blocks.max_receipts_per_trigger,
        heights=HeightsSettings(block_bits=settings.block_bits, lifts=settings.job.lifts),
    )


def coverage_settings(settings: CulmSettings) -> CoverageSettings:
    """Build the settings of the job `coverage`."""
    from culm_streaming.coverage.job import CoverageSettings
    from culm_streaming.coverage.settings import CoverageLayout

    section = settings.job.coverage
    return CoverageSettings(
        verify=settings.job.verify,
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        max_fragments_per_trigger=section.max_fragments_per_trigger,
        max_holdings_per_trigger=section.max_holdings_per_trigger,
        max_payload_chunks_per_trigger=section.max_payload_chunks_per_trigger,
        layout=CoverageLayout(shards=settings.job.shards),
    )
