"""`rejected`: bytes of a DAG that were refused, under the CID that they have or were sent as."""

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
    """(key, record) of what was refused: the code of a `DagError`, and the bytes where they fit.

    The key is the CID's bytes, empty where none can be told.
    """
    record = rejection(code, detail, entry=data, brought_by=peer, source=source)
    return b"" if cid is None else cid.raw, record
