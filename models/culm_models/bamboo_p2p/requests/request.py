"""One request at one end: who asked for what, how far either end is, and what is still to be said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from culm_models.bamboo.certificate_pool import shortest_path
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.requests.interest import Interest
from culm_models.bamboo_p2p.requests.sequence import PassedPieces, Sequence
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Adjust, Propose

NOTIFIED_RUNS_MAX: Final = 1_024
"""So many runs of pieces that were only notified of are told apart, in one request and either set."""


class RequestState(StrEnum):
    """The states of 3.8."""

    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    CANCELLING = "cancelling"


@dataclass(slots=True)
class Cursor:
    """How far an end is: whole pieces passed, and bytes into the payload after them.

    `furthest` is the highest place ever, which an apology does not roll back (R46, R49).
    """

    piece: int = 0
    offset: int = 0
    furthest: tuple[int, int] = (0, 0)

    def move(self, piece: int, offset: int = 0) -> None:
        """Go to a later place."""
        self.piece, self.offset = piece, offset
        self.furthest = max(self.furthest, (piece, offset))

    def go_back(self, piece: int, offset: int) -> None:
        """Return to the beginning of a piece, for an apology."""
        self.piece, self.offset = piece, offset


@dataclass(slots=True)
class LatestPiece:
    """The latest piece that came as data, for which alone there may be an apology (R59)."""

    index: int
    is_complete: bool = False
    is_valid: bool = False


class Request:
    """One request, from its proposal until all four messages of its cancellation are through.

    `mine`: this end proposed it. `own` is what this end wants of it, `wanted` what the other end does.
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
        self.own, self.wanted = Interest(), Interest.of_proposal(proposal)
        if mine:
            self.own, self.wanted = self.wanted, self.own

        self.is_parked = self.confirmed = False
        self.cancel_sent = self.cancel_received = False
        self.data_end_sent = self.data_end_received = False

        # The end and upper bound that fix the sequence (R34 ii), and those in force (R34 iii).
        self.sequence_end, self.sequence_upper = proposal.end, proposal.upper
        self.end, self.upper = proposal.end, proposal.upper
        self.sequence = self._make_sequence()
        self.ended_by: int | None = None
        """The entry of the sequence that ends the log, once it is known (R58)."""
        self.other_ended_by: int | None = None
        """That entry, where the other end sent it: nothing of later entries may come."""

        first = proposal.offset or 0
        self.outgoing, self.incoming = Cursor(0, first, (0, first)), Cursor(0, first, (0, first))
        self.has_sent = False
        self.scanned = 0
        """Pieces up to here need nothing but to be passed; where the search for something to send goes on."""
        self.held_until = 0
        """Nothing that was asked for is lacking up to this piece."""
        self.unverified: PayloadTrace | None = None
        """What was sent of the outgoing piece without being verified."""
        self.verified_only: int | None = None
        """A piece that goes out again only verified, after an apology."""
        self.apology_due = False

        self.other_passed = PassedPieces()
        """Pieces that the other end passed by verified data or by notify: they can be caught up over."""
        self.notified_metadata = RangeSet()
        """Pieces of metadata of which both ends only notified, so that no link of theirs is pinned."""
        self.notified = RangeSet()
        """Pieces that this end passed by notify, where there is metadata among them. Of either set, too much
        makes this end more patient and nothing else, so of very many runs the last are joined."""
        self.latest: LatestPiece | None = None
        self.received_apology: int | None = None
        self.incoming_size: int | None = None
        """The size of the payload at the incoming cursor, as its metadata in this request said it."""
        self.is_discarding = False
        """What comes is framed, and thrown away (R54)."""
        self.is_position_lost = False
        """Payloads of unknown sizes came, with no metadata between them: no position can be checked."""

    @property
    def id(self) -> int:
        """Its number on the wire."""
        return self.proposal.id

    @property
    def state(self) -> RequestState:
        """Where it is between proposal and cancellation."""
        if self.cancel_sent or self.cancel_received:
            return RequestState.CANCELLING
        return RequestState.CONFIRMED if self.confirmed else RequestState.PROPOSED

    @property
    def is_freed(self) -> bool:
        """Whether all four messages of the cancellation are through."""
        return self.cancel_sent and self.cancel_received and self.data_end_sent and self.data_end_received

    @property
    def is_unanswered(self) -> bool:
        """Whether the other end's proposal waits for this end's answer (R40)."""
        return not self.mine and not self.confirmed and not self.cancel_sent

    @property
    def may_send(self) -> bool:
        """Whether data of it may go out."""
        return self.confirmed and not self.cancel_sent and not self.data_end_sent

    def overlaps(self, proposal: Propose) -> bool:
        """Whether the ranges share an entry of one log, as they were proposed (R37)."""
        mine = self.proposal
        return (
            self.log == (proposal.public_key, proposal.log_id)
            and (mine.end is None or proposal.start <= mine.end)
            and (proposal.end is None or mine.start <= proposal.end)
        )

    def first_offset(self, piece: int) -> int:
        """Where a payload begins: at the proposal's offset, if it is the first piece."""
        return (self.proposal.offset or 0) if piece == 0 else 0

    def confirm(self, adjust: Adjust) -> None:
        """The sequence is fixed by the proposal and what the confirmation lowers of it (R32, R34 ii)."""
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
        """Of which entries either end says that it holds the metadata, as first and last numbers (R35)."""
        proposal, end = self.proposal, self.sequence_end
        if not proposal.payload_only:
            return [(proposal.start, proposal.start)] if proposal.offset is not None else []
        if end is None:
            return [(proposal.start, proposal.start)]
        if proposal.sparse:
            return [(number, number) for number in shortest_path(proposal.start, end)]
        return [(proposal.start, end)]

    def lower_end(self, adjust: Adjust) -> None:
        """Take the end and upper bound of an adjustment that was checked, where they are lower."""
        if adjust.end is not None and (self.end is None or adjust.end < self.end):
            if self.end is None:
                self.upper = MAX_SIZE
            self.end = adjust.end
        if adjust.upper is not None and self.upper is not None and adjust.upper < self.upper:
            self.upper = adjust.upper

    @property
    def limit(self) -> int:
        """The index behind the last piece that this end may send: end of sequence, of a cut, of the log."""
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
    """The hash of a payload's bytes as they pass, for as long as none is passed over.

    A payload that was put together from both ends is nobody's fault, so nothing needs to be known of it.
    """

    __slots__ = ("_end", "_flavour", "_hasher", "seq_num")

    def __init__(self, flavour: HashFlavour, seq_num: int) -> None:
        self.seq_num = seq_num
        self._flavour = flavour
        self._hasher = flavour.hasher(b"")
        self._end: int | None = 0

    def add(self, offset: int, data: bytes) -> None:
        """So much passed, from `offset` on."""
        if offset != self._end:
            self._end = None
            return
        self._hasher.update(data)
        self._end += len(data)

    def is_wrong(self, payload_hash: bytes) -> bool:
        """Whether all bytes passed, every one of them from one end, and they are another payload."""
        return self._end is not None and self._flavour.prefix + self._hasher.digest() != payload_hash
