"""Completion of requests: detects that everything requested is held, or cannot arrive (3.8, Completion)."""

from __future__ import annotations

from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import BambooStore


def holds_all_requested(request: Request, limit: int, store: BambooStore) -> bool:
    """Whether everything requested up to the piece `limit` is held. Continues where the last call stopped."""
    log, own, sequence = request.log, request.own, request.sequence
    index = request.held_until
    while index < limit:
        run = sequence.entries_from(index)
        if run is not None:
            # Consecutive entries that are held with their payloads are passed in one step.
            first, last = run
            whole = min(store.end_of_held_payloads(log, first), last + 1) - first
            if whole:
                index = min(index + 2 * whole, limit)
                continue
        piece = sequence.piece(index)
        stored = store.entry(log, piece.seq_num)
        if piece.is_payload:
            if stored is None:
                break
            size = stored.entry.payload_size
            is_asked_for = own.fits(size) and own.wants_payload(size)
            if is_asked_for and not store.has_payload(log, piece.seq_num):
                break
        elif own.wants_metadata and stored is None:
            break
        index += 1
    request.held_until = index
    return index >= limit


def insists_on_dropped(request: Request, store: BambooStore) -> bool:
    """Whether the next piece is a mandatory payload that was dropped here, so that waiting is futile."""
    index, wanted = request.scanned, request.wanted
    if not wanted.mandatory or request.direction is Direction.PULL or index >= request.limit:
        return False
    piece = request.sequence.piece(index)
    if not piece.is_payload or not store.is_dropped(request.log, piece.seq_num):
        return False
    # The other end may be sending it at this moment.
    is_coming = request.incoming.piece == index and request.incoming.offset > request.first_offset(index)
    return not is_coming and not store.has_payload(request.log, piece.seq_num)
