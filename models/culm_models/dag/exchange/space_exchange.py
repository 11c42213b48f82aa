"""State of one space on one connection: offers, acknowledgements and which end is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import IDENTITY, RAW, Cid, make_cid
from culm_models.dag.errors import DagFrameTooLarge
from culm_models.dag.exchange.offers import FRAME_OVERHEAD, in_frames, link_size, offer_of_store, offers_of
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import AckStatus, DagAck, DagDone, DagOffer

WHOLE_SPACE: Final = make_cid(1, RAW, IDENTITY, b"")
"""Link that stands for the space itself in an ACK that refuses reading it."""
_ACK_OVERHEAD: Final = 8


@dataclass(slots=True)
class SpaceExchange:
    """The state of one space on one connection."""

    space: bytes
    offers: list[Iterator[DagOffer]] = field(default_factory=list)
    """Offers to send."""
    acks: list[tuple[Cid, AckStatus, str | None]] = field(default_factory=list)
    """Acknowledgements to send."""
    unanswered: set[Cid] = field(default_factory=set)
    """Heads offered to the other end that it has not answered."""
    was_offered: bool = False
    """Whether the other end has made an offer."""
    is_done_due: bool = True
    """Whether DONE has to be sent because something has changed since the last one."""
    was_other_done: bool = False
    """Whether the other end has sent DONE since the last offer to it."""

    @property
    def other_is_done(self) -> bool:
        """Whether the other end has received everything that it wants of the offers to it.

        The other end may have sent DONE before it received the last offer. It has received that offer once it
        has answered the offer's heads or named them in DONE.
        """
        return self.was_other_done and not self.unanswered

    @property
    def has_sent_all(self) -> bool:
        """Whether offers, acknowledgements and DONE have been sent."""
        return not (self.offers or self.acks or self.is_done_due)

    def done(self, message: DagDone) -> None:
        """Record the other end's DONE and the heads in it."""
        self.was_other_done = True
        self.unanswered.difference_update(message.dag_heads)
        self.unanswered.discard(message.tip or WHOLE_SPACE)

    def offer_all(self, store: ExchangeStore, refusal: str | None, max_frame: int) -> None:
        """Replace the offers to send by an offer of the whole store.

        If reading is refused (`refusal` is a code), the offer is empty and an ACK carries the code.
        """
        self.was_other_done = False
        if refusal is None:
            self.offers = [offer_of_store(store, self.space, max_frame)]
        else:
            self.acks.append((WHOLE_SPACE, AckStatus.REFUSED, refusal))
            self.offers = [offers_of(self.space, (), (), (), max_frame)]

    def not_served(self, cid: Cid, *, is_too_large: bool) -> None:
        """Answer a request that cannot be served: the link is missing here, or too large for a frame."""
        self.unanswered.discard(cid)
        if is_too_large:
            self.acks.append((cid, AckStatus.REFUSED, DagFrameTooLarge.code))
        else:
            self.acks.append((cid, AckStatus.NOT_HERE, None))

    def next_ack(self, max_frame: int) -> DagAck | None:
        """Take as many acknowledgements as fit a frame. Returns None if there are none."""
        if not self.acks:
            return None
        batch = next(in_frames(self.acks, _ack_size, max_frame))
        del self.acks[: len(batch)]
        return DagAck(self.space, tuple((cid, int(status), code) for cid, status, code in batch))

    def next_offer(self) -> DagOffer | None:
        """Take the next offer. The other end's earlier DONE does not cover it."""
        while self.offers:
            message = next(self.offers[0], None)
            if message is not None:
                self.unanswered.update(message.dag_heads, message.publish_heads)
                self.was_other_done = False
                return message
            self.offers.pop(0)
        return None

    def next_done(self, store: ExchangeStore, max_frame: int) -> DagDone | None:
        """Take the DONE message, with as many heads as fit a frame.

        Returns None if no DONE is due, or if offers or acknowledgements must precede it.
        """
        if not self.is_done_due or not self.was_offered or self.offers or self.acks:
            return None
        self.is_done_due = False
        heads = next(in_frames(store.dag_heads(self.space), link_size, max_frame - FRAME_OVERHEAD), ())
        return DagDone(self.space, heads, store.tip(self.space))


def _ack_size(ack: tuple[Cid, AckStatus, str | None]) -> int:
    return link_size(ack[0]) + _ACK_OVERHEAD + len(ack[2] or "")
