"""What each protocol adds to the command line and to the settings: a line in each of these tables.

Light to import: a noun and a demo are loaded when they are used.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from culm_infra.sections.dag_job import DagJobSection
from culm_infra.sections.p2panda_peer import PeerSection
from culm_infra.sections.sds_job import SdsJobSection

NOUNS: Final = {
    "p2panda": "p2panda.group:app",
    "sds": "sds.group:app",
    "chotki": "chotki.group:app",
    "bamboo": "bamboo.group:app",
    "dag": "dag.group:app",
}
"""`culm <noun>`: `module:attribute` below `culm_infra.cli`."""

DEMOS: Final = {
    "p2panda": "p2panda.demo:demo",
    "sds": "sds.demo:demo",
    "chotki": "chotki.demo:demo",
    "bamboo": "bamboo.demo:demo",
    "dag": "dag.demo:demo",
}
"""`culm demo <protocol>`; the first is what `culm demo` shows."""


JOB_SETTINGS: Final = {
    "logs": "logs.job_settings:logs_settings",
    "version-vectors": "logs.job_settings:version_vectors_settings",
    "blocks": "logs.job_settings:blocks_settings",
    "coverage": "logs.job_settings:coverage_settings",
    "sds": "sds.job_settings:sds_settings",
    "sds-index": "sds.job_settings:sds_index_settings",
    "chotki": "chotki.job_settings:chotki_settings",
    "dag": "dag.job_settings:dag_settings",
}
"""What makes the settings of a job of those of the command line."""


JOB_FLAGS: Final = {
    "verify": ("logs", "coverage"),
    "shards": ("logs", "coverage", "dag"),
    "block_bits": ("blocks",),
    "max_offsets": ("logs", "version-vectors", "blocks", "coverage", "chotki"),
    "sds_max_offsets": ("sds", "sds-index"),
    "sds_interval_ms": ("sds",),
    "sds_cache_entries": ("sds",),
}
"""Parameters of `culm job run` that not every job heeds, with those that do."""


class ProtocolSections(BaseModel):
    """Sections of programs of their own."""

    peer: PeerSection = Field(PeerSection(), description="the reference peer of p2panda")


class ProtocolJobs(BaseModel):
    """Settings of those jobs that have some of their own."""

    sds: SdsJobSection = Field(SdsJobSection(), description="the job sds")
    dag: DagJobSection = Field(DagJobSection(), description="the job dag")
