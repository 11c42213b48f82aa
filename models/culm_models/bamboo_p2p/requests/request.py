"""A request at one end: its proposal, the interest and progress of both ends, and outstanding messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from culm_models.bamboo.certificate_pool import shortest_path
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.requests.interest import RequestInterest
from culm_models.bamboo_p2p.requests.sequence import PassedPieces, Sequence
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Adjust, Propose

NOTIFIED_RUNS_MAX: Final = 1_024
"""Maximum number of runs of notified pieces that a request distinguishes, in each of its two sets."""


class RequestState(StrEnum):
    """The states of a request (3.8)."""

    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    CANCELLING = "cancelling"


@dataclass(slots=True)
class Cursor:
    """Position of an end: the number of pieces passed, and the offset in the payload after them.

    `furthest` is the highest position so far; an apology does not reset it (R46, R49).
    """

    piece: int = 0
    offset: int = 0
    furthest: tuple[int, int] = (0, 0)

    def move(self, piece: int, offset: int = 0) -> None:
        """Move to a later position."""
        self.piece, self.offset = piece, offset
        self.furthest = max(self.furthest, (piece, offset))

    def go_back(self, piece: int, offset: int) -> None:
        """Return to the beginning of a piece, for an apology."""
        self.piece, self.offset = piece, offset


@dataclass(slots=True)
class LatestPiece:
    """The latest piece received as data, the only one for which an apology may arrive (R59)."""

    index: int
    is_complete: bool = False
    is_valid: bool = False


class Request:
    """A request, from its proposal until all four messages of its cancellation were sent and received.

    `mine`: this end proposed it. `own` is the interest of this end, `wanted` that of the other end.
    """

    __slots__ = (
        "apology_due",
        "cancel_received",
        "cancel_sent",
        "confirmed",
        "data_end_received",
        "data_end_sent",
        "direction",
        "end",
        "ended_by",
        "has_sent",
        "held_until",
        "incoming",
        "incoming_size",
        "is_discarding",
        "is_parked",
        "is_position_lost",
        "latest",
        "log",
        "mine",
        "notified",
        "notified_metadata",
        "order",
        "other_ended_by",
        "other_passed",
        "outgoing",
        "own",
        "proposal",
        "received_apology",
        "scanned",
        "sequence",
        "sequence_end",
        "sequence_upper",
        "unverified",
        "upper",
        "verified_only",
        "wanted",
    )

    def __init__(self, proposal: Propose, *, mine: bool, order: int, direction: Direction) -> None:
        self.proposal = proposal
        self.mine = mine
        self.order = order
        self.direction = direction
        self.log: LogKey = (proposal.public_key, proposal.log_id)
        self.own, self.wanted = RequestInterest(), RequestInterest.of_proposal(proposal)
        if mine:
            self.own, self.wanted = self.wanted, self.own

        self.is_parked = self.confirmed = False
        self.cancel_sent = self.cancel_received = False
        self.data_end_sent = self.data_end_received = False

        # The end and upper bound that fix the sequence (R34 ii), and the values in force (R34 iii).
        self.sequence_end, self.sequence_upper = proposal.end, proposal.upper
        self.end, self.upper = proposal.end, proposal.upper
        self.sequence = self._make_sequence()
        self.ended_by: int | None = None
        """Sequence number of the entry that ends the log, if the sequence is known to contain it (R58)."""
        self.other_ended_by: int | None = None
        """The same number if the other end sent that entry: data of later entries is a violation."""

        first = proposal.offset or 0
        self.outgoing, self.incoming = Cursor(0, first, (0, first)), Cursor(0, first, (0, first))
        self.has_sent = False
        self.scanned = 0
        """Index from which the search for a piece to send continues; all pieces before it are only passed."""
        self.held_until = 0
        """Index up to which all requested pieces are held."""
        self.unverified: PayloadTrace | None = None
        """Trace of the bytes of the outgoing piece that were sent unverified."""
        self.verified_only: int | None = None
        """Index of a piece that, after an apology, is only sent again when it is verified."""
        self.apology_due = False

        self.other_passed = PassedPieces()
        """Pieces that the other end passed by valid data or by notify, so that they need not be sent."""
        self.notified_metadata = RangeSet()
        """Metadata pieces that both ends only notified, so that their links are not fixed to a branch."""
        self.notified = RangeSet()
        """Pieces that this end passed by notify, if metadata is among them.

        Extra pieces in either set only make this end more tolerant, so the last of very many runs are joined.
        """
        self.latest: LatestPiece | None = None
        self.received_apology: int | None = None
        self.incoming_size: int | None = None
        """Size in bytes of the payload at the incoming cursor, from its metadata in this request."""
        self.is_discarding = False
        """Whether received data is parsed and discarded (R54)."""
        self.is_position_lost = False
        """Whether payloads of unknown sizes arrived in sequence, so that positions cannot be checked."""

    @property
    def id(self) -> int:
        """The id on the wire."""
        return self.proposal.id

    @property
    def state(self) -> RequestState:
        """The state between proposal and cancellation."""
        if self.cancel_sent or self.cancel_received:
            return RequestState.CANCELLING
        return RequestState.CONFIRMED if self.confirmed else RequestState.PROPOSED

    @property
    def is_freed(self) -> bool:
        """Whether all four messages of the cancellation were sent and received."""
        return self.cancel_sent and self.cancel_received and self.data_end_sent and self.data_end_received

    @property
    def is_unanswered(self) -> bool:
        """Whether the other end's proposal waits for this end's answer (R40)."""
        return not self.mine and not self.confirmed and not self.cancel_sent

    @property
    def may_send(self) -> bool:
        """Whether this end may send data of the request."""
        return self.confirmed and not self.cancel_sent and not self.data_end_sent

    def overlaps(self, proposal: Propose) -> bool:
        """Whether the ranges, as proposed, share an entry of the same log (R37)."""
        mine = self.proposal
        return (
            self.log == (proposal.public_key, proposal.log_id)
            and (mine.end is None or proposal.start <= mine.end)
            and (proposal.end is None or mine.start <= proposal.end)
        )

    def first_offset(self, piece: int) -> int:
        """Return the offset at which a payload begins: the proposal's offset for the first piece, else 0."""
        return (self.proposal.offset or 0) if piece == 0 else 0

    def confirm(self, adjust: Adjust) -> None:
        """Confirm the request, and fix its sequence as the confirmation lowers it (R32, R34 ii)."""
        if adjust.end is not None and (self.sequence_end is None or adjust.end < self.sequence_end):
            if self.sequence_end is None:
                self.sequence_upper = MAX_SIZE
            self.sequence_end = adjust.end
        if (
            adjust.upper is not None
            and self.sequence_upper is not None
            and adjust.upper < self.sequence_upper
        ):
            self.sequence_upper = adjust.upper
        self.sequence = self._make_sequence()
        self.confirmed = True

    def claimed_metadata(self) -> list[tuple[int, int]]:
        """Return the entries whose metadata both ends claim to hold, as first and last numbers (R35)."""
        proposal, end = self.proposal, self.sequence_end
        if not proposal.payload_only:
            return [(proposal.start, proposal.start)] if proposal.offset is not None else []
        if end is None:
            return [(proposal.start, proposal.start)]
        if proposal.sparse:
            return [(number, number) for number in shortest_path(proposal.start, end)]
        return [(proposal.start, end)]

    def lower_end(self, adjust: Adjust) -> None:
        """Apply the end and upper bound of a checked adjustment, if they are lower."""
        if adjust.end is not None and (self.end is None or adjust.end < self.end):
            if self.end is None:
                self.upper = MAX_SIZE
            self.end = adjust.end
        if adjust.upper is not None and self.upper is not None and adjust.upper < self.upper:
            self.upper = adjust.upper

    @property
    def limit(self) -> int:
        """Index after the last piece to send: the end of the sequence, an adjusted end, or the log's."""
        limit = self.sequence.size
        if self.end is not None and self.end != self.sequence_end:
            limit = min(limit, self.sequence.first_beyond(self.end))
        elif self.upper is not None and self.upper != self.sequence_upper:
            limit = min(limit, self.sequence.first_upper_beyond(self.upper))
        if self.ended_by is not None:
            limit = min(limit, self.sequence.behind(self.ended_by))
        return limit

    def _make_sequence(self) -> Sequence:
        proposal = self.proposal
        return Sequence(
            proposal.start,
            lower=proposal.lower,
            end=self.sequence_end,
            upper=self.sequence_upper,
            offset=proposal.offset,
            payload_only=proposal.payload_only,
            sparse=proposal.sparse and self.sequence_end is not None,
        )


class PayloadTrace:
    """Running hash of a payload's bytes, as long as no byte is skipped.

    If a payload has bytes from both ends, neither is responsible for it, so its hash is not needed.
    """

    __slots__ = ("_end", "_flavour", "_hasher", "seq_num")

    def __init__(self, flavour: HashFlavour, seq_num: int) -> None:
        self.seq_num = seq_num
        self._flavour = flavour
        self._hasher = flavour.hasher(b"")
        self._end: int | None = 0

    def add(self, offset: int, data: bytes) -> None:
        """Add bytes at `offset`. A gap ends the trace."""
        if offset != self._end:
            self._end = None
            return
        self._hasher.update(data)
        self._end += len(data)

    def is_wrong(self, payload_hash: bytes) -> bool:
        """Whether the trace has no gap and the bytes are not the payload with this hash."""
        return self._end is not None and self._flavour.prefix + self._hasher.digest() != payload_hash
