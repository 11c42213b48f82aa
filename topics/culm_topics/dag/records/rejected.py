"""`rejected`: refused bytes of a DAG, under their CID or the CID with which they were sent."""

from __future__ import annotations

from culm_models.dag.blocks.cid import Cid
from culm_topics.records.rejected import RejectedRecord, Source, rejection


def dag_rejection(
    cid: Cid | None,
    code: str,
    detail: str,
    *,
    data: bytes | None = None,
    peer: bytes | None = None,
    source: Source | None = None,
) -> tuple[bytes, RejectedRecord]:
    """Return (key, record) of refused data: the code of a `DagError`, and the bytes if they fit.

    The key is the CID's bytes, or empty if it is unknown.
    """
    record = rejection(code, detail, entry=data, brought_by=peer, source=source)
    return b"" if cid is None else cid.raw, record
