"""The rules of a folder, applied to connections: to proposals as they come, and to requests as things change.

Everything here is called where the store is worked on, by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.policy.answers import LATER, Allowance, answer
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule
from culm_connectors.bamboo_p2p.policy.quota import QuotaLedger
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified, ForkFound, PayloadVerified
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Answers, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import CancelCode, Eagerness, Propose


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
