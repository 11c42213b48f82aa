"""The rules of a folder, applied to connections: to proposals as they come, and to requests as things change.

Everything here is called where the store is worked on, by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.policy.answers import LATER, Allowance, answer
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule
from culm_connectors.bamboo_p2p.policy.quota import QuotaLedger
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.events import BambooP2pEvent, PayloadVerified
from culm_models.bamboo_p2p.settings import Answers, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import CancelCode, Eagerness, Propose

_LOOK_S: Final = 5.0
"""How often quotas of peers are looked at again, of themselves."""


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
        self._ledger = QuotaLedger()
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
        has_peer_quotas = any(
            rule.quota_bytes is not None for rule in (policy.default, *policy.peer.values())
        )
        return (
            self._store.paused,
            self._store.payload_bytes() if policy.quotas.author_bytes is not None else 0,
            # What peers brought flows away by itself.
            self._clock_s() // _LOOK_S if has_peer_quotas else 0,
        )

    def is_paused(self, principal: str, log: LogKey) -> bool:
        """Whether nothing of a log is exchanged with a peer for now."""
        paused = self._store.paused
        return bool(paused) and (principal in paused or log_name(log) in paused)

    def answers_for(self, principal: str) -> Answers:
        """What is said to the proposals of a peer."""

        def policy_for(proposal: Propose) -> Policy:
            log: LogKey = (proposal.public_key, proposal.log_id)
            if self._policy is None:
                return LATER if self.is_paused(principal, log) else self._otherwise
            rule = self._policy.rule_for(principal)
            return answer(rule, log, self._allowance(principal, rule, log), largest=self._otherwise.max_size)

        return policy_for

    def _allowance(self, principal: str, rule: PeerRule, log: LogKey) -> Allowance:
        return Allowance(
            is_known=bool(self._store.entries(log)) or log in self.followed,
            is_paused=self.is_paused(principal, log),
            author_is_full=self._author_is_full(log),
            peer_is_full=self._peer_is_full(principal, rule),
        )

    def _peer_is_full(self, principal: str, rule: PeerRule) -> bool:
        return rule.quota_bytes is not None and self._ledger.is_full(
            principal, self._clock_s(), quota_bytes=rule.quota_bytes, period_s=rule.quota_period_s
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

    def count(self, principal: str, events: list[BambooP2pEvent]) -> None:
        """Heed what a peer brought."""
        rule = None if self._policy is None else self._policy.rule_for(principal)
        if rule is None or rule.quota_bytes is None:
            return
        for event in events:
            held = self._store.entry(event.log, event.seq_num) if isinstance(event, PayloadVerified) else None
            if held is not None:
                self._ledger.add(
                    principal,
                    held.entry.payload_size,
                    self._clock_s(),
                    quota_bytes=rule.quota_bytes,
                    period_s=rule.quota_period_s,
                )

    def enforce(self, principal: str, connection: Connection) -> None:
        """End the requests of a connection that would not be begun now."""
        if connection.dropped is not None:
            return
        answers = self.answers_for(principal)
        for request in connection.requests:
            if request.cancel_sent or request.cancel_received or request.is_parked:
                continue
            if request.mine:
                takes = request.own.eagerness is not Eagerness.NOTIFY
                is_over = self.is_paused(principal, request.log) or (
                    takes and self._author_is_full(request.log)
                )
                code = CancelCode.DONE
            else:
                now = answers(request.proposal)
                code = now.code
                is_over = now.answer is PolicyAnswer.REFUSE
                if now.direction is Direction.PUSH is not request.direction:
                    # It is proposed again by itself, and may then only be read.
                    is_over, code = True, CancelCode.RESOURCES
            if is_over:
                try:
                    connection.cancel(request.id, code)
                except CallRefused:
                    continue
