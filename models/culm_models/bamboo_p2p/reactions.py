"""Automatic reactions to cancels of own requests (3.8, reactions).

Proposals to repeat wait here: until the other end grants credit, until an overlapping proposal has been
answered, and, if the other end was short of resources (129), until an own request is freed. If the other end
cancels requests without ever sending their last data messages, this end would keep more and more of them.
Proposals therefore also wait while too many such requests are kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from culm_models.bamboo_p2p.errors import CallRefused, NoCredit, RangeViolated, Unanswered
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, Eagerness

_MAX_WAITING: Final = 256
"""Maximum number of own proposals that wait to be repeated. Beyond it, the oldest are left to the driver.

No proposal is repeated while as many cancelled requests wait for their last data message.
"""


class Reactions:
    """Repeats own proposals after cancels, if that is useful."""

    def __init__(self, link: ConnectionState, negotiation: Negotiation) -> None:
        self._link = link
        self._negotiation = negotiation
        self._due: deque[RequestedRange] = deque(maxlen=_MAX_WAITING)
        self._short_of_resources: deque[RequestedRange] = deque(maxlen=_MAX_WAITING)
        self._refused_for_resources: set[Request] = set()
        self._not_freed: set[Request] = set()
        """Own cancelled requests whose last data message has not arrived."""

    def react(self) -> None:
        """React to the cancels and freed requests since the last call."""
        link = self._link
        if not (link.answers or link.freed or link.again or self._due):
            return
        answers, link.answers = link.answers, []
        for request, message in answers:
            if not request.is_freed:
                self._not_freed.add(request)
            self._answer(request, message)
        freed, link.freed = link.freed, []
        for request in freed:
            self._not_freed.discard(request)
            if request in self._refused_for_resources:
                self._refused_for_resources.discard(request)
            elif self._short_of_resources:
                self._due.append(self._short_of_resources.popleft())
        again, link.again = link.again, []
        for request, from_beginning in again:
            if request.mine and not request.is_freed:
                self._not_freed.add(request)
            wanted = _requested_range(request)
            self._due.append(replace(wanted, offset=0) if from_beginning else wanted)
        self._propose()

    def _answer(self, request: Request, message: Cancel) -> None:
        wanted = _requested_range(request)
        if message.code is CancelCode.RESOURCES:
            self._refused_for_resources.add(request)
            self._short_of_resources.append(wanted)
            self._cancel_least_useful()
        elif message.code is CancelCode.MANDATORY and wanted.mandatory:
            self._due.append(replace(wanted, mandatory=False))
        elif message.code is CancelCode.END_OF_LOG and message.seq_num is not None:
            # The end of the log is proven by its metadata, so a notify of it is not enough.
            notified = wanted.eagerness is Eagerness.NOTIFY
            self._due.append(
                RequestedRange(
                    wanted.public_key,
                    wanted.log_id,
                    message.seq_num,
                    end=message.seq_num,
                    eagerness=Eagerness.THRESHOLD if notified else wanted.eagerness,
                    threshold=0 if notified else wanted.threshold,
                    direction=wanted.direction,
                )
            )

    def _cancel_least_useful(self) -> None:
        """Cancel the own request that has received the fewest pieces, to free resources (129)."""
        own = [
            request
            for request in self._link.requests
            if request.mine and request.confirmed and not (request.cancel_sent or request.cancel_received)
        ]
        if own:
            least = min(own, key=lambda request: (request.incoming.piece, -request.order))
            self._negotiation.cancel(least, Cancel(least.id, CancelCode.RESOURCES))

    def _propose(self) -> None:
        for _ in range(len(self._due)):
            if len(self._not_freed) >= _MAX_WAITING:
                return
            wanted = self._due.popleft()
            try:
                self._negotiation.propose(wanted)
            except NoCredit:
                self._due.appendleft(wanted)
                return
            except Unanswered:
                self._due.append(wanted)
            except (CallRefused, RangeViolated):
                # An entry that it requires is no longer held, or the other end will not accept it again.
                continue


def _requested_range(request: Request) -> RequestedRange:
    """Return the range that a request proposed."""
    proposal = request.proposal
    return RequestedRange(
        proposal.public_key,
        proposal.log_id,
        proposal.start,
        proposal.lower,
        proposal.min_size,
        proposal.max_size,
        proposal.expected_hash,
        proposal.eagerness,
        proposal.threshold,
        proposal.end,
        proposal.upper,
        proposal.offset,
        payload_only=proposal.payload_only,
        sparse=proposal.sparse,
        mandatory=proposal.mandatory,
        direction=request.direction,
    )
