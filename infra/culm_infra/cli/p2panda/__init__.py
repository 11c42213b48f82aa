"""`culm p2panda`: `peer` is the reference peer, `peer_home` its folder.

`documents` are those of a deployment or of a peer; `document_sources` reads and `document_rows` prints them.
`ids` checks the ids in arguments, `demo` is `culm demo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_infra.cli.kit.noun import noun

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_streaming.p2panda_documents.job import DocumentsSettings

app = noun(
    "Peers that speak p2panda's protocol, and their documents.",
    {
        "peer": "p2panda.peer:app",
        "documents": "p2panda.documents:app",
    },
)


def documents_settings(settings: CulmSettings) -> DocumentsSettings:
    """Build the settings of the job `documents`."""
    from culm_streaming.p2panda_documents.job import DocumentsSettings
    from culm_streaming.p2panda_documents.settings import DocumentsLayout

    return DocumentsSettings(
        max_offsets_per_trigger=settings.job.max_offsets_per_trigger,
        layout=DocumentsLayout(shards=settings.job.shards, **settings.job.documents.model_dump()),
    )
