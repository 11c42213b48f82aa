"""Each protocol's additions to the command line and the settings: one line per protocol in each table.

The module is light to import: a noun and a demo are loaded when they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from culm_connectors.p2panda.settings import DriverSettings, SessionSettings
from culm_infra.sections.dag_job import DagJobSection
from culm_infra.sections.p2panda_documents_job import DocumentsJobSection
from culm_infra.sections.sds_job import SdsJobSection

NOUNS: Final = {
    "p2panda": "p2panda:app",
    "sds": "sds:app",
    "chotki": "chotki:app",
    "bamboo": "bamboo:app",
    "dag": "dag:app",
}
"""Modules of `culm <noun>`: `module:attribute` below `culm_infra.cli`."""

DEMOS: Final = {
    "p2panda": "p2panda.demo:demo",
    "sds": "sds.demo:demo",
    "chotki": "chotki.demo:demo",
    "bamboo": "bamboo.demo:demo",
    "dag": "dag.demo:demo",
}
"""Demos of `culm demo <protocol>`; the first one is the plain `culm demo`."""


JOBS: Final = {
    "p2panda": ("all", "documents"),
    "bamboo": ("all", "coverage"),
    "sds": ("sds",),
    "chotki": ("chotki",),
    "dag": ("dag",),
}
"""Groups of jobs that a protocol needs, each for one `culm job run`."""


JOB_SETTINGS: Final = {
    "logs": "logs:logs_settings",
    "version-vectors": "logs:version_vectors_settings",
    "blocks": "logs:blocks_settings",
    "coverage": "logs:coverage_settings",
    "documents": "p2panda:documents_settings",
    "sds": "sds:sds_settings",
    "sds-index": "sds:sds_index_settings",
    "chotki": "chotki:chotki_settings",
    "dag": "dag:dag_settings",
}
"""Builders of the settings of a job: `module:function` below `culm_infra.cli`."""


JOB_FLAGS: Final = {
    "verify": ("logs", "coverage"),
    "shards": ("logs", "coverage", "documents", "dag"),
    "block_bits": ("blocks",),
    "max_offsets": ("logs", "version-vectors", "blocks", "coverage", "documents", "chotki"),
    "sds_max_offsets": ("sds", "sds-index"),
    "sds_interval_ms": ("sds",),
    "sds_cache_entries": ("sds",),
}
"""Parameters of `culm job run` that only some jobs use, with those jobs."""


SETTINGS_FILES: Final = {
    "connector.bamboo.policy": "culm_connectors.bamboo_p2p.policy.document:read_policy",
}
"""Readers of files that a protocol's settings name, for `culm settings check`: `module:function`."""


DECODERS: Final[Mapping[str, tuple[tuple[str, str, Mapping[str, Any]], ...]]] = {
    "logs": (
        ("bamboo.entry.decode", "entry", {"verify": False, "hash": "yasmf"}),
        ("bamboo.entry.decode", "entry", {"verify": False, "hash": "yamf"}),
        ("p2panda.operation.decode", "operation", {}),
    ),
    "sds": (
        ("sds.message.decode", "bytes", {"profile": "spec"}),
        ("sds.message.decode", "bytes", {"profile": "js"}),
        ("sds.message.decode", "bytes", {"profile": "nim"}),
    ),
    "chotki": (("chotki.packet.parse", "packet", {}),),
    "dag": (("replica.decode", "bytes", {}), ("car.decode", "bytes", {}), ("cbor.decode", "bytes", {})),
}
"""Operations of `culm conform` that decode refused bytes, by the first word of their topic's name.

Each is its name, the argument for the bytes, and further arguments.
"""


CONSOLE_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "p2panda": ("p2panda:tables",),
    "sds": ("sds:tables",),
    "chotki": ("chotki:tables",),
    "bamboo": ("bamboo:tables",),
    "dag": ("dag:tables",),
    "all": ("rejected:tables",),
}
"""Tables of `culm console` by protocol: functions that open them, `module:function` below
`culm_infra.console.tables`.
"""


class PeerSection(BaseModel):
    """Settings of `culm p2panda peer`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path | None = Field(
        None,
        description="Folder of the peer's key and store. By default it is in the user's data directory.",
        examples=["/srv/culm/peer"],
    )
    datagram_size: int | Literal["auto"] = Field(
        "auto",
        description="Largest datagram that is sent: 1200, 1452 or 8900 bytes; `auto` takes 8900 "
        "towards loopback addresses and 1452 elsewhere.",
    )
    sessions: SessionSettings = Field(
        SessionSettings(), description="How sessions find out what the other side is missing."
    )
    driver: DriverSettings = Field(DriverSettings(), description="Limits on what one remote may send.")


class ProtocolSections(BaseModel):
    """Sections of separate programs."""

    peer: PeerSection = Field(PeerSection(), description="The reference peer of p2panda.")


class ProtocolJobs(BaseModel):
    """Settings of those jobs that have their own."""

    sds: SdsJobSection = Field(SdsJobSection(), description="The job `sds`.")
    dag: DagJobSection = Field(DagJobSection(), description="The job `dag`.")
    documents: DocumentsJobSection = Field(DocumentsJobSection(), description="The job `documents`.")
