"""What an end that dropped a payload says to one that does not go on without it (R48, 132)."""

from __future__ import annotations

from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import BambooStore


def insists_on_dropped(request: Request, store: BambooStore) -> bool:
    """Whether the payload that stops an end was dropped here, so that waiting for it is in vain."""
    index, wanted = request.scanned, request.wanted
    if not wanted.mandatory or request.direction is Direction.PULL or index >= request.limit:
        return False
    piece = request.sequence.piece(index)
    if not piece.is_payload or not store.is_dropped(request.log, piece.seq_num):
        return False
    # The other end may be just bringing it.
    is_coming = request.incoming.piece == index and request.incoming.offset > request.first_offset(index)
    return not is_coming and not store.has_payload(request.log, piece.seq_num)
