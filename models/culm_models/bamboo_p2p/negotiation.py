"""The control channel: credit, proposals, overlaps, confirmations, adjustments, cancels (3.3 to 3.6, 3.8)."""

from __future__ import annotations

from typing import Final

from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM
from culm_models.bamboo_p2p import events
from culm_models.bamboo_p2p.errors import (
    CreditViolated,
    EndFixed,
    IdViolated,
    InterestFixed,
    LimitReached,
    NoCredit,
    NoSuchRequest,
    Parked,
    RangeViolated,
    RefusedBefore,
    RequestInactive,
    Unanswered,
)
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.requests.proposals import (
    RequestedRange,
    check_range,
    judge_evidence,
    make_proposal,
    objection,
    refused_key,
    unfit,
)
from culm_models.bamboo_p2p.requests.request import Request, RequestState
from culm_models.bamboo_p2p.settings import UNCHANGING_MESSAGES_MAX, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    ControlMessage,
    Eagerness,
    Grant,
    Propose,
)

_MAX_CREDIT: Final = 2**64 - 1
LOST_MAX: Final = 4_096
"""Lost proposals of the other end, with returned credit, about which messages may still arrive (R41)."""
_MAX_REFUSED: Final = 65_536
"""Maximum number of refusals remembered per connection. When it is reached, all are forgotten."""


class Negotiation:
    """Sends and reads control messages, and changes the requests of a link accordingly."""

    def __init__(self, link: ConnectionState) -> None:
        self._link = link
        self._next_id = link.parity
        self._order = 0
        self._unchanging = 0
        self._credit_when_sent: dict[int, int] = {}
        self._losers: dict[int, int] = {}

    # Calls of this end's driver.

    def grant(self, credit: int) -> None:
        """Allow the other end to send `credit` further proposals."""
        if credit:
            self._link.granted += credit
            self._link.send(Grant(credit))

    def propose(self, wanted: RequestedRange) -> Request:
        """Send a proposal. Returns its request. Raises `CallRefused` and `RangeViolated`."""
        link = self._link
        proposal = make_proposal(wanted, self._next_id, link.store)
        if refused_key(proposal) in link.refused:
            raise RefusedBefore("the other end refused this proposal, for this connection")
        same_log = link.requests.of_log(wanted.log)
        if any(request.is_unanswered and request.overlaps(proposal) for request in same_log):
            raise Unanswered("an overlapping proposal of the other end waits for its answer")
        if not link.credit:
            raise NoCredit("the other end takes no further proposal now")
        link.credit -= 1
        self._next_id += 2
        self._order += 1
        request = Request(proposal, mine=True, order=self._order, direction=wanted.direction)
        self._credit_when_sent[request.order] = link.granted
        link.requests.add(request)
        link.send(proposal)
        return request

    def adjust(self, request_id: int, message: Adjust) -> None:
        """Adjust a request, or confirm an unanswered proposal of the other end. Raises `CallRefused`."""
        request = self._adjustable(request_id)
        if request.is_parked:
            raise Parked("the proposal's id is still in use, so it cannot be answered yet")
        confirms = request.is_unanswered
        if confirms and message.eagerness is None:
            raise NoSuchRequest("a confirmation needs an eagerness")
        if not confirms and (message.end is not None or message.upper is not None):
            raise EndFixed("only a confirmation can lower the end")
        own = request.own
        if (message.min_size is not None and message.min_size < own.min_size) or (
            message.max_size is not None and message.max_size > own.max_size
        ):
            raise InterestFixed("a minimum size can only grow, a maximum size only shrink")
        self._check_end(request, message)
        self._link.send(message)
        own.adjust(message)
        if confirms:
            request.lower_end(message)
            self._confirmed(request, message)

    def cancel(self, request: Request, cancel: Cancel) -> None:
        """Cancel a request, unless it is cancelled already."""
        if request.cancel_sent:
            return
        request.cancel_sent = True
        self._link.send(cancel)
        self._link.wake(request)

    def cancel_by_id(self, request_id: int, code: CancelCode) -> None:
        """Cancel a request on behalf of the driver. Raises `NoSuchRequest` and `Parked`."""
        request = self._adjustable(request_id)
        if request.is_parked:
            raise Parked("the proposal's id is still in use, so it cannot be answered yet")
        self.cancel(request, Cancel(request_id, code))

    def _adjustable(self, request_id: int) -> Request:
        request = self._link.requests.active.get(request_id)
        if request is None or request.state is RequestState.CANCELLING:
            raise NoSuchRequest(f"there is no request {request_id} that is not cancelled")
        return request

    # Messages of the other end.

    def receive(self, message: ControlMessage) -> None:
        """Process a message. Raises the `BambooP2pError` that ends the connection."""
        if isinstance(message, Grant):
            changes = self._receive_grant(message)
        elif isinstance(message, Propose):
            self._receive_proposal(message)
            changes = True
        elif isinstance(message, Adjust):
            changes = self._receive_adjust(message)
        else:
            changes = self._receive_cancel(message)
        self._unchanging = 0 if changes else self._unchanging + 1
        if self._unchanging >= UNCHANGING_MESSAGES_MAX:
            raise LimitReached("too many control messages in a row that change nothing")

    def _receive_grant(self, message: Grant) -> bool:
        if self._link.credit + message.credit > _MAX_CREDIT:
            raise CreditViolated("more than 2**64-1 proposals were granted")
        self._link.credit += message.credit
        return message.credit > 0

    def _receive_proposal(self, proposal: Propose) -> None:
        link, table = self._link, self._link.requests
        if not link.granted:
            raise CreditViolated(f"there was no credit for the proposal {proposal.id}")
        link.granted -= 1
        former = table.active.get(proposal.id)
        if proposal.id % 2 == link.parity:
            raise IdViolated(f"the id {proposal.id} is of this end's parity")
        if former is not None and not (
            former.cancel_sent and former.cancel_received and former.data_end_sent
        ):
            raise IdViolated(f"the id {proposal.id} is in use")
        check_range(proposal)
        table.tombstones.pop(proposal.id, None)
        if self._loses(proposal):
            return
        policy = link.settings.policy_for(proposal)
        self._order += 1
        request = Request(proposal, mine=False, order=self._order, direction=policy.direction)
        table.add(request)
        link.report(events.Proposed(proposal.id))
        request.is_parked = proposal.id in table.former
        if not request.is_parked:
            self._decide(request)

    def _loses(self, proposal: Propose) -> bool:
        """Resolve overlaps with own unconfirmed proposals. Returns whether the new one loses (R37 to R41)."""
        link = self._link
        outstanding = sorted(
            (
                request
                for request in link.requests.of_log((proposal.public_key, proposal.log_id))
                if request.mine and not request.confirmed and not request.cancel_received
            ),
            key=lambda request: request.order,
        )
        for request in outstanding:
            if not request.overlaps(proposal):
                continue
            own_start = request.proposal.start
            # If this end's ids are even, the other end is the reactive one.
            if proposal.start > own_start or (proposal.start == own_start and link.parity == 0):
                lost = self._losers.get(request.order, 0) + 1
                if lost > self._credit_when_sent[request.order]:
                    raise CreditViolated("more proposals lost to one than there was credit for")
                if link.requests.lost >= max(LOST_MAX, 2 * link.settings.credit):
                    raise LimitReached("of too many lost proposals the last data message is owed")
                self._losers[request.order] = lost
                link.granted += 1
                link.requests.bury(proposal.id, request)
                link.report(events.OverlapDropped(proposal.id, mine=False))
                return True
            self._lose(request)
        return False

    def _lose(self, request: Request) -> None:
        """Remove an own proposal as never sent. If it was cancelled, its last data message is still sent."""
        link = self._link
        if request.cancel_sent and not request.data_end_sent:
            link.orphaned_ends.append(request.id)
        request.cancel_sent = request.data_end_sent = True
        link.requests.remove(request)
        self._forget(request)
        link.credit += 1
        link.report(events.OverlapDropped(request.id, mine=True))

    def _forget(self, request: Request) -> None:
        self._credit_when_sent.pop(request.order, None)
        self._losers.pop(request.order, None)

    def _decide(self, request: Request) -> None:
        """Answer a proposal, with the checks in the order of 3.8."""
        link, policy = self._link, self._link.settings.policy_for(request.proposal)
        if request.cancel_received:
            self.cancel(request, Cancel(request.id, CancelCode.CONFIRMED))
            return
        request.direction = policy.direction
        if policy.answer is PolicyAnswer.REFUSE and not policy.reveals:
            self.cancel(request, Cancel(request.id, policy.code))
            return
        refusal = objection(request.proposal, request.id, link.store)
        if refusal is None and policy.answer is PolicyAnswer.REFUSE:
            refusal = Cancel(request.id, policy.code)
        if refusal is None:
            refusal = unfit(request.proposal, request.id, link.store, request.direction)
        if refusal is not None:
            self.cancel(request, refusal if policy.reveals else Cancel(request.id, CancelCode.REFUSED))
        elif policy.answer is PolicyAnswer.CONFIRM:
            self._confirm_by_policy(request, policy)

    def _confirm_by_policy(self, request: Request, policy: Policy) -> None:
        proposal = request.proposal
        end = upper = None
        if policy.end is not None and (proposal.end is None or policy.end < proposal.end):
            end = max(policy.end, proposal.start)
        lowest_upper = end if end is not None else proposal.end
        if policy.upper is not None and lowest_upper is not None:
            highest_upper = MAX_SEQ_NUM if proposal.upper is None else proposal.upper
            if policy.upper < highest_upper:
                upper = max(policy.upper, lowest_upper)
        message = Adjust(
            request.id,
            policy.eagerness,
            policy.threshold if policy.eagerness is Eagerness.THRESHOLD else None,
            may_skip=policy.may_skip,
            end=end,
            upper=upper,
            min_size=policy.min_size or None,
            max_size=policy.max_size if policy.max_size < MAX_SEQ_NUM else None,
        )
        self.adjust(request.id, message)

    def _receive_adjust(self, message: Adjust) -> bool:
        request = self._named(message.id)
        if request is None:
            return False
        confirms = request.mine and not request.confirmed
        if confirms and message.eagerness is None:
            raise RequestInactive(f"the confirmation of {message.id} sets no eagerness")
        self._check_end(request, message)
        before = request.limit
        changes = request.wanted.adjust(message) or confirms
        request.lower_end(message)
        if confirms:
            self._confirmed(request, message)
        request.scanned = 0
        self._link.wake(request)
        return changes or request.limit != before

    @staticmethod
    def _check_end(request: Request, message: Adjust) -> None:
        """Check a new end and upper bound against the values in force (R32, R34). Raises `RangeViolated`."""
        end = request.end
        if message.end is not None:
            if message.end < request.proposal.start:
                raise RangeViolated(f"the end {message.end} is before the start {request.proposal.start}")
            end = message.end if end is None else min(end, message.end)
        if message.upper is not None and (end is None or message.upper < end):
            raise RangeViolated(f"the upper bound {message.upper} is below the end, {end}")

    def _confirmed(self, request: Request, message: Adjust) -> None:
        request.confirm(message)
        if request.mine:
            self._forget(request)
        for first, last in request.claimed_metadata():
            self._link.other_holds_metadata(request.log, first, last + 1)
        self._link.report(events.Confirmed(request.id))
        self._link.wake(request)

    def _receive_cancel(self, message: Cancel) -> bool:
        link = self._link
        request = self._named(message.id)
        if request is None:
            link.requests.ignore_cancel(message.id, link.requests.tombstones[message.id])
            return True
        proof = judge_evidence(request, message, link.store)
        request.cancel_received = True
        if proof is not None:
            link.found_fork(request, proof)
        link.report(events.RequestCancelled(request.id, message.code))
        if message.code is CancelCode.REFUSED or (
            message.code is CancelCode.CONFIRMED and not request.cancel_sent
        ):
            if len(link.refused) >= _MAX_REFUSED:
                link.refused.clear()
            link.refused.add(refused_key(request.proposal))
        self._forget(request)
        if not request.is_parked:
            self.cancel(request, Cancel(request.id, CancelCode.CONFIRMED))
        if request.mine:
            link.answers.append((request, message))
        self.free(request)
        return True

    def _named(self, request_id: int) -> Request | None:
        """Return the request of an adjustment or cancel, or None for a lost proposal, which is ignored.

        Raises `RequestInactive`.
        """
        link, table = self._link, self._link.requests
        request = table.active.get(request_id)
        if request is None:
            stone = table.tombstones.get(request_id)
            if stone is None or stone.cancel_ignored:
                raise RequestInactive(f"there is no request {request_id}")
            return None
        if request.cancel_received:
            raise RequestInactive(f"the request {request_id} was cancelled by this very end")
        if request_id % 2 == link.parity:
            table.end_tombstones(request.order)
        return request

    # Ends.

    def free(self, request: Request) -> None:
        """Remove a request after all four messages of its cancellation, and unpark a proposal with its id."""
        if not request.is_freed:
            return
        link, table = self._link, self._link.requests
        table.remove(request)
        self._forget(request)
        link.report(events.RequestFreed(request.id))
        if request.mine:
            link.freed.append(request)
        else:
            self.grant(1)
        self.unpark(request.id)

    def unpark(self, request_id: int) -> None:
        """Answer the proposal that waited until all earlier uses of its id had ended (R10)."""
        table = self._link.requests
        waiting = table.active.get(request_id)
        if waiting is not None and waiting.is_parked and request_id not in table.former:
            waiting.is_parked = False
            self._decide(waiting)
