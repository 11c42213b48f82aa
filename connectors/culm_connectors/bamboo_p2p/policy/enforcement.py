"""Applies the rules of a folder to proposals and to requests in progress.

Unknown logs and forbidden logs are answered alike: 128. A readable log is known if some of it is held, if it
is known to be forked, or if it is followed.

All functions except `answer` run in the thread that works on the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified, ForkFound, PayloadVerified
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Answers, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, CancelCode, Eagerness, Propose

_MAX_PEERS: Final = 65_536
"""Number of peers that a ledger remembers; above it the peer that sent the least is forgotten."""
FORBIDDEN = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.REFUSED, reveals=False)
LATER = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.RESOURCES, reveals=False)


@dataclass(slots=True)
class _UsedQuota:
    amount: float = 0.0
    at_s: float = 0.0


class QuotaLedger:
    """Amounts that peers have sent lately (bytes or entries). Times in seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._used: dict[str, _UsedQuota] = {}

    def add(self, peer: str, amount: int, now_s: float, *, quota: int, period_s: float) -> None:
        """Add an amount that a peer with this quota has sent."""
        used = self._used.setdefault(peer, _UsedQuota())
        used.amount = self._now(used, now_s, quota, period_s) + amount
        used.at_s = now_s
        if len(self._used) > _MAX_PEERS:
            least = min(self._used, key=lambda name: self._used[name].amount)
            del self._used[least]

    def is_full(self, peer: str, now_s: float, *, quota: int, period_s: float) -> bool:
        """Whether a peer with this quota has used it up for now."""
        used = self._used.get(peer)
        return used is not None and self._now(used, now_s, quota, period_s) >= quota

    @staticmethod
    def _now(used: _UsedQuota, now_s: float, quota: int, period_s: float) -> float:
        flown = max(0.0, now_s - used.at_s) * quota / period_s
        return max(0.0, used.amount - flown)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Facts about a log and a peer that decide the answer to a proposal."""

    is_known: bool
    is_paused: bool = False
    author_is_full: bool = False
    """The quota of the log's author is used up."""
    peer_is_full: bool = False
    """The quota of the peer is used up for now."""


def answer(rule: PeerRule, log: LogKey, allowance: Allowance, *, largest: int = MAX_SIZE) -> Policy:
    """Return the policy for a proposal. Payloads above `largest` bytes are not accepted."""
    is_readable, is_writable = rule.may_read(log), rule.may_write(log)
    sends = is_readable and allowance.is_known
    if not sends and not is_writable:
        return FORBIDDEN
    if allowance.is_paused:
        return LATER
    takes = is_writable and not (allowance.author_is_full or allowance.peer_is_full)
    if not sends and not takes:
        # The quota of an author stays used up; the quota of a peer recovers.
        return FORBIDDEN if allowance.author_is_full else LATER
    # A log that is not held yet may be read by the peer that sends it.
    direction = Direction.BOTH if is_readable else Direction.PULL
    return Policy(
        eagerness=rule.eagerness,
        threshold=rule.threshold if rule.eagerness is Eagerness.THRESHOLD else None,
        may_skip=not rule.mandatory,
        min_size=rule.min_size,
        max_size=min(rule.max_size, largest),
        direction=direction if takes else Direction.PUSH,
        reveals=sends,
    )


def log_name(log: LogKey) -> str:
    """Return the printed name of a log: the author's key in hex, and the log's id."""
    return f"{log[0].hex()}/{log[1]}"


class PolicyEnforcement:
    """Applies a policy to one folder and its peers.

    With `policy` None every proposal is answered by `otherwise`, except for paused logs and peers.
    """

    def __init__(
        self,
        policy: FolderPolicy | None,
        store: FolderStore,
        otherwise: Policy,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._store = store
        self._otherwise = otherwise
        self._clock_s = clock_s
        self._bytes, self._entries = QuotaLedger(), QuotaLedger()
        """Bytes of payloads and number of entries that each peer has sent lately."""
        self._full: set[str] = set()
        """Peers that have used up their quotas."""
        self.over_quota = 0
        """Proposals that a quota refused or restricted to reading, and requests that a quota ended."""
        self._refused: Propose | None = None
        self._judged: tuple[object, ...] = self._state()
        self._log_count = len(store.logs)
        self.followed: set[LogKey] = set()
        """Logs that this end requests; they count as known before any of their entries is held."""

    def use(self, policy: FolderPolicy | None) -> None:
        """Use another policy from now on. `enforce` applies it to requests made under the former one."""
        self._policy = policy
        self._judged = ()

    def has_changed(self) -> bool:
        """Whether a change since the last call may require ending requests or allow new ones."""
        former, self._judged = self._judged, self._state()
        return self._judged != former

    def has_new_logs(self) -> bool:
        """Whether the number of logs has changed since the last call, so that patterns may match new ones."""
        former, self._log_count = self._log_count, len(self._store.logs)
        return self._log_count != former

    def _state(self) -> tuple[object, ...]:
        policy = self._policy
        if policy is None:
            return (self._store.paused,)
        # Used quotas recover over time.
        self._full = {principal for principal in self._full if self._principal_is_full(principal)}
        return (
            self._store.paused,
            self._store.payload_bytes() if policy.quotas.author_bytes is not None else 0,
            frozenset(self._full),
        )

    def is_paused(self, principal: str, log: LogKey) -> bool:
        """Whether the exchange of a log with a peer is paused."""
        paused = self._store.paused
        return bool(paused) and (principal in paused or log_name(log) in paused)

    def answers_for(self, principal: str) -> Answers:
        """Return the function that answers the proposals of a peer."""

        def policy_for(proposal: Propose) -> Policy:
            policy, is_for_quota = self._judge(principal, proposal)
            # A proposal is checked when it arrives and once more when it is answered, but counts once.
            if is_for_quota and self._refused is not proposal:
                self._refused = proposal
                self.over_quota += 1
            return policy

        return policy_for

    def _judge(self, principal: str, proposal: Propose) -> tuple[Policy, bool]:
        """Return the answer to a proposal, and whether a quota forbids its sender to send the log."""
        log: LogKey = (proposal.public_key, proposal.log_id)
        if self._policy is None:
            return (LATER if self.is_paused(principal, log) else self._otherwise), False
        rule = self._policy.rule_for(principal)
        # Both are looked up for every log. If only the fork proof of a log is held, the fork is reported.
        entries, proof = self._store.entries(log), self._store.fork_proof(log)
        allowance = Allowance(
            is_known=bool(entries) or proof is not None or log in self.followed,
            is_paused=self.is_paused(principal, log),
            author_is_full=self._author_is_full(log),
            peer_is_full=self._peer_is_full(principal, rule),
        )
        is_full = allowance.author_is_full or allowance.peer_is_full
        is_for_quota = is_full and rule.may_write(log) and not allowance.is_paused
        return answer(rule, log, allowance, largest=self._otherwise.max_size), is_for_quota

    def _peer_is_full(self, principal: str, rule: PeerRule) -> bool:
        now_s, period_s = self._clock_s(), rule.quota_period_s
        return any(
            quota is not None and ledger.is_full(principal, now_s, quota=quota, period_s=period_s)
            for ledger, quota in ((self._bytes, rule.quota_bytes), (self._entries, rule.quota_entries))
        )

    def _may_take(self, principal: str, log: LogKey) -> bool:
        """Whether data of a log may be requested from a peer."""
        if self._policy is None:
            return True
        rule = self._policy.rule_for(principal)
        return (
            rule.may_write(log) and not self._author_is_full(log) and not self._peer_is_full(principal, rule)
        )

    def _author_is_full(self, log: LogKey) -> bool:
        max_bytes = None if self._policy is None else self._policy.quotas.author_bytes
        return max_bytes is not None and self._store.payload_bytes(log[0]) >= max_bytes

    def allowed(self, principal: str, interest: FollowedLog) -> FollowedLog | None:
        """Return the part of an interest that may be requested from or offered to a peer, or None."""
        if self.is_paused(principal, interest.log):
            return None
        if self._policy is None:
            return interest
        rule = self._policy.rule_for(principal)
        is_written = interest.direction is not Direction.PUSH and self._may_take(principal, interest.log)
        is_read = interest.direction is not Direction.PULL and rule.may_read(interest.log)
        if not is_written and not is_read:
            return None
        if is_written and is_read:
            return interest
        return replace(interest, direction=Direction.PULL if is_written else Direction.PUSH)

    def interests(self, principal: str) -> list[FollowedLog]:
        """Return the interests for which the rules ask a peer."""
        return [] if self._policy is None else self._policy.rule_for(principal).interests(self._store.logs)

    def count(self, principal: str, events: list[BambooP2pEvent]) -> bool:
        """Charge a peer's new entries and payloads to its quotas. Returns whether a quota is used up now."""
        rule = None if self._policy is None else self._policy.rule_for(principal)
        if rule is None or not _has_quota(rule):
            return False
        entries = size = 0
        for event in events:
            if isinstance(event, PayloadVerified):
                entry = self._store.entry(event.log, event.seq_num)
                size += entry.entry.payload_size if entry is not None else 0
            elif isinstance(event, EntryVerified | ForkFound):
                entries += 1
        if not entries and not size:
            return False
        now_s, period_s = self._clock_s(), rule.quota_period_s
        for ledger, quota, amount in (
            (self._bytes, rule.quota_bytes, size),
            (self._entries, rule.quota_entries, entries),
        ):
            if quota is not None and amount:
                ledger.add(principal, amount, now_s, quota=quota, period_s=period_s)
        if not self._peer_is_full(principal, rule):
            return False
        self._full.add(principal)
        return True

    def enforce(self, principal: str, connection: BambooConnection) -> None:
        """End the requests of a connection that would be refused now, and accept no more data of them."""
        if connection.dropped is not None:
            return
        for request in connection.requests:
            ending = None if request.is_parked else self._ending(principal, request)
            if ending is None:
                continue
            code, is_for_quota = ending
            # Cancelled requests, too: data may arrive until their sender has finished them.
            connection.stop_taking(request)
            if request.cancel_sent or request.cancel_received:
                continue
            try:
                connection.cancel(request.id, code)
            except CallRefused:
                continue
            self.over_quota += is_for_quota

    def _ending(self, principal: str, request: Request) -> tuple[CancelCode, bool] | None:
        """Return the code if a request has to end now, and whether a quota is the reason; else None."""
        if request.mine:
            is_full = request.own.eagerness is not Eagerness.NOTIFY and (
                self._author_is_full(request.log) or self._principal_is_full(principal)
            )
            is_over = is_full or self.is_paused(principal, request.log)
            return (CancelCode.DONE, is_full) if is_over else None
        now, is_for_quota = self._judge(principal, request.proposal)
        if now.answer is PolicyAnswer.REFUSE:
            return now.code, is_for_quota
        if now.direction is Direction.PUSH is not request.direction:
            # The other end proposes it again, and may then only read.
            return CancelCode.RESOURCES, is_for_quota
        return None

    def _principal_is_full(self, principal: str) -> bool:
        policy = self._policy
        return policy is not None and self._peer_is_full(principal, policy.rule_for(principal))


def _has_quota(rule: PeerRule) -> bool:
    return rule.quota_bytes is not None or rule.quota_entries is not None
