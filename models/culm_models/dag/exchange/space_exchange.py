"""Where one connection stands with one space: what was offered, what is to be acknowledged, who is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import IDENTITY, RAW, Cid, make_cid
from culm_models.dag.errors import DagFrameTooLarge
from culm_models.dag.exchange.offers import FRAME_ROOM, in_frames, link_size, offer_of_store, offers_of
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import AckStatus, DagAck, DagDone, DagOffer

WHOLE_SPACE: Final = make_cid(1, RAW, IDENTITY, b"")
"""Stands for the space itself in an ACK that refuses to show it."""
_ACK_ROOM: Final = 8


@dataclass(slots=True)
class SpaceExchange:
    """One space of one connection."""

    space: bytes
    offers: list[Iterator[DagOffer]] = field(default_factory=list)
    """To be sent."""
    acks: list[tuple[Cid, AckStatus, str | None]] = field(default_factory=list)
    """To be sent."""
    unanswered: set[Cid] = field(default_factory=set)
    """Heads that the other end was told of, and has said nothing of."""
    was_offered: bool = False
    """Whether the other end has made an offer."""
    is_done_due: bool = True
    """Whether DONE has not been said since something changed."""
    was_other_done: bool = False
    """Whether the other end has said DONE since it was offered something."""

    @property
    def other_is_done(self) -> bool:
        """Whether the other end has all that it wants of what it was offered.

        DONE may have been said before the last offer came: who has answered its heads, or names them, has
        seen that.
        """
        return self.was_other_done and not self.unanswered

    @property
    def has_said_all(self) -> bool:
        """Whether offers, acknowledgements and DONE have been sent."""
        return not (self.offers or self.acks or self.is_done_due)

    def done(self, message: DagDone) -> None:
        """The other end has what it wants, and these heads."""
        self.was_other_done = True
        self.unanswered.difference_update(message.dag_heads)
        self.unanswered.discard(message.tip or WHOLE_SPACE)

    def offer_all(self, store: ExchangeStore, refusal: str | None, max_frame: int) -> None:
        """Offer all that is here, in place of what was to be offered; nothing to whom reading is refused."""
        self.was_other_done = False
        if refusal is None:
            self.offers = [offer_of_store(store, self.space, max_frame)]
        else:
            self.acks.append((WHOLE_SPACE, AckStatus.REFUSED, refusal))
            self.offers = [offers_of(self.space, (), (), (), max_frame)]

    def not_served(self, cid: Cid, *, is_too_large: bool) -> None:
        """A link that was wanted cannot be sent: it is not here, or no frame is large enough."""
        self.unanswered.discard(cid)
        if is_too_large:
            self.acks.append((cid, AckStatus.REFUSED, DagFrameTooLarge.code))
        else:
            self.acks.append((cid, AckStatus.NOT_HERE, None))

    def next_ack(self, max_frame: int) -> DagAck | None:
        """As many acknowledgements as fit a frame."""
        if not self.acks:
            return None
        batch = next(in_frames(self.acks, _ack_size, max_frame))
        del self.acks[: len(batch)]
        return DagAck(self.space, tuple((cid, int(status), code) for cid, status, code in batch))

    def next_offer(self) -> DagOffer | None:
        """The next offer; DONE counts from here on."""
        while self.offers:
            message = next(self.offers[0], None)
            if message is not None:
                self.unanswered.update(message.dag_heads, message.publish_heads)
                self.was_other_done = False
                return message
            self.offers.pop(0)
        return None

    def next_done(self, store: ExchangeStore, max_frame: int) -> DagDone | None:
        """DONE, where it is due and all else was said; as many heads as fit a frame."""
        if not self.is_done_due or not self.was_offered or self.offers or self.acks:
            return None
        self.is_done_due = False
        heads = next(in_frames(store.dag_heads(self.space), link_size, max_frame - FRAME_ROOM), ())
        return DagDone(self.space, heads, store.tip(self.space))


def _ack_size(one: tuple[Cid, AckStatus, str | None]) -> int:
    return link_size(one[0]) + _ACK_ROOM + len(one[2] or "")
