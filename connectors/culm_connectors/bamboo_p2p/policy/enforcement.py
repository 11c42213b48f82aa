"""The rules of a folder, applied: to proposals as they come, to requests as things change, to what is kept.

An unknown log and a forbidden one are answered alike, before anything is looked up in the store: 128. What
may be read is known where something of it is held, or where it is followed. Entries always stay; payloads
are dropped that are held for too long, and the oldest of too many.

All but `answer` is called where the store is worked on, by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule, RetentionRule, match
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified, ForkFound, PayloadVerified
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Answers, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, CancelCode, Eagerness, Propose

_AT_A_TIME: Final = 1_000


_MAX_PEERS: Final = 65_536
"""So many peers are kept in mind; beyond, those who brought the least are forgotten."""
FORBIDDEN = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.REFUSED, reveals=False)
LATER = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.RESOURCES, reveals=False)


def retain(
    store: FolderStore,
    rule: RetentionRule,
    now_s: float,
    may_drop: Callable[[LogKey, int], bool] = lambda log, seq_num: True,
) -> list[tuple[LogKey, int]]:
    """Drop a bounded number of payloads that the rule does not keep; which those were.

    `may_drop` says of a log and sequence number whether nobody needs the payload, whatever the rule says.

    Call it again while it returns something, in `store.exclusively()` or where nobody else writes.
    """
    if rule.max_age_s is None and rule.max_bytes is None:
        return []
    counted = sum(store.log_bytes(log) for log in store.logs if match(rule.logs, log))
    dropped: list[tuple[LogKey, int]] = []
    count = _AT_A_TIME
    while True:
        oldest = store.oldest_payloads(count)
        for log, seq_num, size, held_at in oldest:
            is_old = rule.max_age_s is not None and now_s - held_at > rule.max_age_s
            is_too_much = rule.max_bytes is not None and counted > rule.max_bytes
            if not is_old and not is_too_much:
                return dropped
            if match(rule.logs, log) and may_drop(log, seq_num):
                store.drop_payload(log, seq_num)
                counted -= size
                dropped.append((log, seq_num))
        if dropped or len(oldest) < count:
            return dropped
        # All of these are needed, or of logs that the rule is not about: look behind them.
        count *= 2


@dataclass(slots=True)
class _Brought:
    amount: float = 0.0
    at_s: float = 0.0


class QuotaLedger:
    """Bytes, or anything, by peer. Times in seconds, on any clock that goes forward."""

    def __init__(self) -> None:
        self._brought: dict[str, _Brought] = {}

    def add(self, peer: str, amount: int, now_s: float, *, quota: int, period_s: float) -> None:
        """A peer with this quota brought so much."""
        found = self._brought.setdefault(peer, _Brought())
        found.amount = self._now(found, now_s, quota, period_s) + amount
        found.at_s = now_s
        if len(self._brought) > _MAX_PEERS:
            least = min(self._brought, key=lambda name: self._brought[name].amount)
            del self._brought[least]

    def is_full(self, peer: str, now_s: float, *, quota: int, period_s: float) -> bool:
        """Whether a peer with this quota is to bring nothing for now."""
        found = self._brought.get(peer)
        return found is not None and self._now(found, now_s, quota, period_s) >= quota

    @staticmethod
    def _now(found: _Brought, now_s: float, quota: int, period_s: float) -> float:
        flown = max(0.0, now_s - found.at_s) * quota / period_s
        return max(0.0, found.amount - flown)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is allowed of a log to a peer when a proposal comes."""

    is_known: bool
    is_paused: bool = False
    author_is_full: bool = False
    """As much is kept of the log's author as there may be."""
    peer_is_full: bool = False
    """The peer has brought as much as it may for now."""


def answer(rule: PeerRule, log: LogKey, allowance: Allowance, *, largest: int = MAX_SIZE) -> Policy:
    """The policy for a proposal; no payload above `largest` bytes is taken."""
    is_readable, is_writable = rule.may_read(log), rule.may_write(log)
    sends = is_readable and allowance.is_known
    if not sends and not is_writable:
        return FORBIDDEN
    if allowance.is_paused:
        return LATER
    takes = is_writable and not (allowance.author_is_full or allowance.peer_is_full)
    if not sends and not takes:
        # More of an author is not wanted at all; of a peer, later.
        return FORBIDDEN if allowance.author_is_full else LATER
    # A log that is not there yet may be read by those who bring it.
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
    """A log as people name it: the author's key in hex, and the log's id."""
    return f"{log[0].hex()}/{log[1]}"


class PolicyEnforcement:
    """`policy` None: every proposal is answered by `otherwise`, but for logs and peers that are paused."""

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
        """What each peer has brought of late, in bytes of payloads and in entries."""
        self._full: set[str] = set()
        """Who has brought as much as it may."""
        self.over_quota = 0
        """Proposals that were refused, in whole or as to bringing, and requests that ended, for a quota."""
        self._refused: Propose | None = None
        self._judged: tuple[object, ...] = self._state()
        self._log_count = len(store.logs)
        self.followed: set[LogKey] = set()
        """Logs that this end asks for, which are known before anything of them is held."""

    def use(self, policy: FolderPolicy | None) -> None:
        """Other rules from now on; `enforce` applies them to what was begun by the former ones."""
        self._policy = policy
        self._judged = ()

    def has_changed(self) -> bool:
        """Whether something has changed since the last call that makes requests to be ended or made."""
        former, self._judged = self._judged, self._state()
        return self._judged != former

    def has_new_logs(self) -> bool:
        """Whether there are more logs than at the last call: patterns may be about them."""
        former, self._log_count = self._log_count, len(self._store.logs)
        return self._log_count != former

    def _state(self) -> tuple[object, ...]:
        policy = self._policy
        if policy is None:
            return (self._store.paused,)
        # What peers brought flows away by itself.
        self._full = {principal for principal in self._full if self._principal_is_full(principal)}
        return (
            self._store.paused,
            self._store.payload_bytes() if policy.quotas.author_bytes is not None else 0,
            frozenset(self._full),
        )

    def is_paused(self, principal: str, log: LogKey) -> bool:
        """Whether nothing of a log is exchanged with a peer for now."""
        paused = self._store.paused
        return bool(paused) and (principal in paused or log_name(log) in paused)

    def answers_for(self, principal: str) -> Answers:
        """What is said to the proposals of a peer."""

        def policy_for(proposal: Propose) -> Policy:
            said, is_for_quota = self._judge(principal, proposal)
            # A proposal is judged when it comes, and once more when it is answered.
            if is_for_quota and self._refused is not proposal:
                self._refused = proposal
                self.over_quota += 1
            return said

        return policy_for

    def _judge(self, principal: str, proposal: Propose) -> tuple[Policy, bool]:
        """What is said to a proposal, and whether a quota keeps its sender from bringing what it might."""
        log: LogKey = (proposal.public_key, proposal.log_id)
        if self._policy is None:
            return (LATER if self.is_paused(principal, log) else self._otherwise), False
        rule = self._policy.rule_for(principal)
        # Both are asked of every log. That a log is forked may be all that is known of it: then that is said.
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
        """Whether data of a log may be asked of a peer."""
        if self._policy is None:
            return True
        rule = self._policy.rule_for(principal)
        return (
            rule.may_write(log) and not self._author_is_full(log) and not self._peer_is_full(principal, rule)
        )

    def _author_is_full(self, log: LogKey) -> bool:
        most = None if self._policy is None else self._policy.quotas.author_bytes
        return most is not None and self._store.payload_bytes(log[0]) >= most

    def allowed(self, principal: str, interest: FollowedLog) -> FollowedLog | None:
        """What of an interest may be asked of, or offered to, a peer."""
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
        """What the rules say that a peer is asked for."""
        return [] if self._policy is None else self._policy.rule_for(principal).interests(self._store.logs)

    def count(self, principal: str, events: list[BambooP2pEvent]) -> bool:
        """Heed what a peer brought; whether that is as much as it may, so that what it brings is to end."""
        rule = None if self._policy is None else self._policy.rule_for(principal)
        if rule is None or not _has_quota(rule):
            return False
        entries = size = 0
        for event in events:
            if isinstance(event, PayloadVerified):
                held = self._store.entry(event.log, event.seq_num)
                size += held.entry.payload_size if held is not None else 0
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

    def enforce(self, principal: str, connection: Connection) -> None:
        """End the requests of a connection that would not be begun now, and take nothing more of them."""
        if connection.dropped is not None:
            return
        for request in connection.requests:
            ending = None if request.is_parked else self._ending(principal, request)
            if ending is None:
                continue
            code, is_for_quota = ending
            # Also of one that is cancelled already: its sender alone says when the last of its data has come.
            connection.stop_taking(request)
            if request.cancel_sent or request.cancel_received:
                continue
            try:
                connection.cancel(request.id, code)
            except CallRefused:
                continue
            self.over_quota += is_for_quota

    def _ending(self, principal: str, request: Request) -> tuple[CancelCode, bool] | None:
        """With which code a request is to end now, if it is, and whether for a quota."""
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
            # It is proposed again by itself, and may then only be read.
            return CancelCode.RESOURCES, is_for_quota
        return None

    def _principal_is_full(self, principal: str) -> bool:
        policy = self._policy
        return policy is not None and self._peer_is_full(principal, policy.rule_for(principal))


def _has_quota(rule: PeerRule) -> bool:
    return rule.quota_bytes is not None or rule.quota_entries is not None
