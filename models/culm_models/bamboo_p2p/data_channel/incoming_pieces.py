"""Pieces received on the data channel, and the other end's progress in each request (3.7).

Notifies, skips and metadata advance its cursor by pieces, payloads by bytes. Every step is checked against
what this end has requested in all settings that it has had.
"""

from __future__ import annotations

from culm_models.bamboo_p2p import events
from culm_models.bamboo_p2p.data_channel.incoming_payload import IncomingPayload
from culm_models.bamboo_p2p.data_channel.rebuilding import LinkUnknown, rebuild_entry
from culm_models.bamboo_p2p.errors import ApologyViolated, DataInvalid, DataUnwanted, PieceViolated
from culm_models.bamboo_p2p.forks import fork_with_held
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.requests.request import NOTIFIED_RUNS_MAX, LatestPiece, Request
from culm_models.bamboo_p2p.requests.sequence import LogPiece
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, Metadata, SkipReason


class IncomingPieces:
    """Advances the incoming cursors of a connection's requests and stores the received data.

    Methods that return a boolean return False if the message changes nothing. Violations raise their
    `BambooP2pError`.
    """

    def __init__(self, link: ConnectionState, negotiation: Negotiation) -> None:
        self._link = link
        self._negotiation = negotiation
        self._payloads: dict[Request, IncomingPayload] = {}

    def end(self, request: Request) -> None:
        """Handle the end of a request's data: discard data that was not verified."""
        self._payloads.pop(request, None)
        latest = request.latest
        if latest is not None and latest.is_complete and not latest.is_valid:
            piece = request.sequence.piece(latest.index)
            if piece.is_payload:
                self._link.discard_unverified(request, piece.seq_num)
            request.latest = None

    def piece(self, request: Request) -> LogPiece:
        """Return the piece at the cursor and check that data for it may arrive. Raises `BambooP2pError`."""
        index = request.incoming.piece
        if index >= request.sequence.size:
            raise PieceViolated("data came past the end of the request")
        latest = request.latest
        if latest is not None and latest.is_complete and not latest.is_valid and not request.is_discarding:
            raise DataInvalid("data was invalid, and more followed without an apology")
        return self._before_end_of_log(request, index)

    def _before_end_of_log(self, request: Request, index: int) -> LogPiece:
        piece, ended_by = request.sequence.piece(index), request.other_ended_by
        if ended_by is not None and piece.seq_num > ended_by and not request.is_discarding:
            raise DataInvalid(f"entry {piece.seq_num} follows the end of the log, {ended_by}")
        return piece

    def pass_unknown_payload(self, request: Request) -> None:
        """Pass a payload of unknown size when the metadata after it arrives (R54)."""
        index = request.incoming.piece
        if request.is_discarding and index < request.sequence.size:
            piece = request.sequence.piece(index)
            if piece.is_payload and self._size(request, piece) is None:
                self._pass(request, 1)

    def _size(self, request: Request, piece: LogPiece) -> int | None:
        """Return the size in bytes of the payload at the incoming cursor, or None if it is unknown."""
        if request.incoming_size is not None or request.is_discarding:
            return request.incoming_size
        stored = self._link.store.entry(request.log, piece.seq_num)
        return stored.entry.payload_size if stored is not None else None

    @staticmethod
    def _is_sure(request: Request) -> bool:
        """Whether the known size of the payload at the cursor is certainly of this request's branch (R54)."""
        return request.incoming_size is not None or not (
            request.proposal.payload_only or request.incoming.piece - 1 in request.notified_metadata
        )

    def _pass(self, request: Request, pieces: int) -> None:
        """Advance the other end's cursor by `pieces`."""
        first = request.incoming.piece + pieces
        request.incoming.move(first, request.first_offset(first))
        request.incoming_size = None
        self._payloads.pop(request, None)
        self._link.wake(request)

    def notify(self, request: Request, pieces: int) -> bool:
        """Handle a notify: the other end passed `pieces` pieces without sending them (R45, R46)."""
        if not pieces:
            return False
        first = request.incoming.piece
        self.piece(request)
        end = first + pieces
        if end > request.sequence.size:
            raise PieceViolated(f"{pieces} pieces were notified of, {request.sequence.size - first} are left")
        self._before_end_of_log(request, end - 1)
        if not request.is_discarding:
            self._check_notified(request, max(first, request.outgoing.furthest[0]), end)
        request.other_passed.pass_to(end)
        self._remember_notified(request, first, end)
        request.latest = None
        self._pass(request, pieces)
        self._link.report(events.PiecesNotified(request.id, pieces))
        return True

    def _check_notified(self, request: Request, first: int, end: int) -> None:
        """Check that this end requested notifies of the pieces from `first`, which it has not passed (R46).

        Raises `DataUnwanted`.
        """
        own = request.own
        if first >= end or own.ever_notified:
            return
        # Between two payloads there is metadata, for which no notify was requested.
        if not own.admits_notify(None) or (end - first > 1 and not request.proposal.payload_only):
            raise DataUnwanted("received a notify although data was requested")
        start = request.sequence.piece(first)
        if not start.is_payload:
            raise DataUnwanted(f"a notify came for the metadata of {start.seq_num}")
        last = request.sequence.piece(end - 1).seq_num
        for seq_num in self._link.store.held_between(request.log, start.seq_num, last):
            stored = self._link.store.entry(request.log, seq_num)
            if stored is not None and request.sequence.payload_index(seq_num) is not None:
                size = stored.entry.payload_size
                # In a payload-only request they may be of another branch, with other sizes.
                if not own.admits_notify(size) and not request.proposal.payload_only:
                    raise DataUnwanted(f"a notify came for the payload of {seq_num}, which was asked for")

    def _remember_notified(self, request: Request, first: int, end: int) -> None:
        """Record notified pieces. The other end holds their metadata.

        Metadata that this end has not sent is not fixed to a branch.
        """
        own = max(first, request.outgoing.furthest[0])
        request.notified_metadata.add_coarsely(own, end, NOTIFIED_RUNS_MAX)
        # The other end may also advance over pieces that this end only notified, on any branch.
        index = request.notified.next_member(first)
        while index is not None and index < min(own, end):
            past = min(request.notified.end_of_run(index), own, end)
            request.notified_metadata.add_coarsely(index, past, NOTIFIED_RUNS_MAX)
            index = request.notified.next_member(past)
        for begin, last in request.sequence.metadata_runs(own, end):
            self._link.other_holds_metadata(request.log, begin, last + 1)

    def skip(self, request: Request, reason: SkipReason) -> None:
        """Handle a skip of a payload (R48)."""
        piece = self.piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"received a skip instead of the metadata of {piece.seq_num} must")
        own = request.own
        size = self._size(request, piece) if self._is_sure(request) else None
        if not request.is_discarding and (
            (reason is SkipReason.UNAVAILABLE and own.mandatory)
            or (reason is SkipReason.TOO_SMALL and size is not None and size >= own.min_size)
            or (reason is SkipReason.TOO_LARGE and size is not None and size <= own.max_size)
        ):
            raise DataUnwanted(f"the payload of {piece.seq_num} was skipped: {reason.name.lower()}")
        request.latest = None
        request.other_passed.skip(request.incoming.piece, piece.seq_num)
        self._pass(request, 1)
        self._link.report(events.PayloadSkipped(request.id, request.log, piece.seq_num, reason))

    def skip_bytes(self, request: Request, length: int) -> bool:
        """Handle a skip of bytes in a payload (R49)."""
        if not length:
            return False
        piece = self.piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"skipped bytes instead of sending the metadata of {piece.seq_num} must come")
        size = self._size(request, piece)
        if request.is_discarding and size is None:
            return True
        index, offset = request.incoming.piece, request.incoming.offset
        sent_piece, sent_bytes = request.outgoing.furthest
        sent = sent_bytes if sent_piece == index else (size or 0) if sent_piece > index else 0
        if size is None or offset + length > min(sent, size):
            raise DataUnwanted(f"{length} bytes were skipped that this end has not sent")
        request.incoming.move(index, offset + length)
        request.latest = None
        self._payload(request, piece, size).skipped()
        if offset + length == size:
            self._payload_complete(request, piece)
        self._link.wake(request)
        return True

    def metadata(self, request: Request, message: Metadata) -> None:
        """Handle the metadata of an entry (R51)."""
        piece = self.piece(request)
        link = self._link
        if not request.own.admits_metadata and not request.is_discarding:
            raise DataUnwanted(f"metadata of {piece.seq_num} received although only notifies were requested")
        index = request.incoming.piece
        if request.is_discarding:
            self._passed_metadata(request, message, index, is_valid=True)
            return
        try:
            rebuilt = rebuild_entry(request, piece.seq_num, message, link.store)
        except LinkUnknown:
            self._give_up(request)
            self._passed_metadata(request, message, index, is_valid=True)
            return
        if rebuilt is None:
            if link.store.fork_proof(request.log) is not None:
                # The fork ends the request; data in flight may be of either branch.
                self._give_up(request)
                self._passed_metadata(request, message, index, is_valid=True)
                return
            if not link.receives_greedily:
                raise DataInvalid(f"entry {piece.seq_num} is not what its author signed")
            self._passed_metadata(request, message, index, is_valid=False)
            return
        stored = link.store.entry(request.log, piece.seq_num)
        proof = fork_with_held(rebuilt, link.store)
        if proof is not None:
            link.found_fork(request, proof)
            self._negotiation.cancel(request, Cancel(request.id, CancelCode.FORKED, entries=proof))
            request.is_discarding = True
        elif stored is not None and stored.hash != rebuilt.hash:
            # Two signatures over the same content: not a provable fork, but links to it would not match.
            self._give_up(request)
        else:
            link.other_holds_metadata(request.log, piece.seq_num, piece.seq_num + 1)
            if message.end_of_log:
                request.ended_by = request.other_ended_by = piece.seq_num
            link.keep_entry(request, rebuilt)
        self._passed_metadata(request, message, index, is_valid=True)

    def _passed_metadata(self, request: Request, message: Metadata, index: int, *, is_valid: bool) -> None:
        request.latest = LatestPiece(index, is_complete=True, is_valid=is_valid)
        if is_valid:
            request.other_passed.pass_to(index + 1)
        self._pass(request, 1)
        following = request.incoming.piece
        if following < request.sequence.size and request.sequence.piece(following).is_payload:
            request.incoming_size = message.payload_size

    def _give_up(self, request: Request) -> None:
        """Cancel a request whose data cannot be checked here, and discard data in flight (R54)."""
        self._negotiation.cancel(request, Cancel(request.id, CancelCode.REFUSED))
        request.is_discarding = True

    def _payload(self, request: Request, piece: LogPiece, size: int) -> IncomingPayload:
        stream = self._payloads.get(request)
        if stream is None:
            stream = self._payloads[request] = IncomingPayload(self._link, request, piece.seq_num, size)
        return stream

    def begin_payload(
        self, request: Request, length: int, compressed_length: int | None
    ) -> IncomingPayload | None:
        """Begin a payload message. Returns the receiver of its bytes, or None if it changes nothing."""
        piece = self.piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"received a payload instead of the metadata of {piece.seq_num} must")
        size = self._size(request, piece)
        index, offset = request.incoming.piece, request.incoming.offset
        if size is None or (
            not self._is_sure(request)
            and (length > size - offset or (length and not request.own.admits_payload(size)))
        ):
            self._give_up(request)
            request.latest = LatestPiece(index)
            request.is_position_lost = True
            return self.unknown_payload(request, length, compressed_length)
        if length > size - offset:
            raise PieceViolated(f"{length} bytes came of a payload of which {size - offset} are left")
        changes = length > 0 or offset == size
        if not changes and not compressed_length:
            return None
        if not request.is_discarding and not request.own.admits_payload(size):
            raise DataUnwanted(f"a payload of {size} bytes came that was not asked for")
        if changes:
            request.latest = LatestPiece(index)
        payload = self._payload(request, piece, size)
        payload.begin(length, compressed_length)
        return payload

    def unknown_payload(
        self, request: Request, length: int, compressed_length: int | None
    ) -> IncomingPayload:
        """Begin a payload message whose position is unknown. Its bytes are discarded (R54)."""
        payload = IncomingPayload(self._link, request, 0, None)
        payload.begin(length, compressed_length)
        return payload

    def moved(self, payload: IncomingPayload) -> None:
        """Handle received bytes of a payload. Verifies the payload if it is complete now."""
        request, link = payload.request, self._link
        if payload.size is not None and not payload.left:
            piece = request.sequence.piece(request.incoming.piece)
            if request.incoming.offset == payload.size:
                self._payload_complete(request, piece)
            elif (
                not request.is_discarding
                and link.store.unverified(request.log, piece.seq_num).covers(0, payload.size)
                and not link.verify_payload(request, piece.seq_num)
            ):
                self._begin_again(request)
        link.wake(request)

    def _begin_again(self, request: Request) -> None:
        """Request a payload again that was wrong, but had bytes from several ends (R49, R55)."""
        begins_inside = bool(request.first_offset(request.incoming.piece))
        code = CancelCode.REFUSED if begins_inside else CancelCode.RESOURCES
        self._negotiation.cancel(request, Cancel(request.id, code))
        self._link.propose_again(request, from_beginning=begins_inside)
        request.is_discarding = True

    def _payload_complete(self, request: Request, piece: LogPiece) -> None:
        """Verify a payload of which all bytes were received or skipped (R49, R55, R56)."""
        link, index = self._link, request.incoming.piece
        stream = self._payloads[request]
        was_data = request.latest is not None and request.latest.index == index
        is_valid = request.is_discarding or stream.verify()
        is_held = link.store.has_payload(request.log, piece.seq_num)
        if not is_valid and not stream.is_of_the_other_alone and not is_held:
            link.discard_unverified(request, piece.seq_num)
            self._begin_again(request)
            is_valid = True
        elif not is_valid and request.proposal.payload_only:
            link.discard_unverified(request, piece.seq_num)
            self._give_up(request)
            is_valid = True
        elif not is_valid and not link.receives_greedily:
            raise DataInvalid(f"the payload of {piece.seq_num} is not the one that its entry names")
        if was_data:
            request.latest = LatestPiece(index, is_complete=True, is_valid=is_valid)
        if is_valid:
            request.other_passed.pass_to(index + 1)
        self._pass(request, 1)

    def apology(self, request: Request) -> None:
        """Handle an apology: the latest piece counts as never sent (R59)."""
        latest = request.latest
        if request.is_discarding:
            if latest is not None:
                self._go_back(request, latest.index)
            return
        if (
            latest is None
            or request.received_apology == latest.index
            or (latest.is_complete and (latest.is_valid or not self._link.receives_greedily))
        ):
            raise ApologyViolated("an apology came for valid data, for nothing, or a second time")
        request.received_apology = latest.index
        piece = request.sequence.piece(latest.index)
        if piece.is_payload:
            self._link.discard_unverified(request, piece.seq_num)
        self._go_back(request, latest.index)
        self._link.report(events.ApologyReceived(request.id))
        self._link.wake(request)

    def _go_back(self, request: Request, index: int) -> None:
        request.latest = None
        request.incoming_size = None
        request.incoming.go_back(index, request.first_offset(index))
        self._payloads.pop(request, None)
