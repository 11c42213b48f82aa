"""UCANs that are here, for the chain of one that a client or a peer shows (R14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.ucan.chain import FindUcan
from culm_models.dag.ucan.signing import verified_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.verdict import VerdictSettings

_LOOKED_AT_MAX: Final = 64


def ucan_finder(read: Callable[[Cid], bytes | memoryview | None], verdict: VerdictSettings) -> FindUcan:
    """Finds by `read`, for the chain of one leaf: a bounded number of blocks is looked at."""
    looked_at = 0

    def find(cid: Cid) -> Ucan | DagError | None:
        nonlocal looked_at
        looked_at += 1
        block = read(cid) if looked_at <= _LOOKED_AT_MAX else None
        if block is None:
            return None
        try:
            return verified_ucan(cid, bytes(block), legacy=verdict.legacy, bounds=verdict.bounds)
        except DagError as error:
            return error

    return find
