"""Drops the payloads of a folder that its policy no longer keeps.

Entries are never dropped. Payloads are dropped by age, and the oldest ones above the total size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, RetentionRule, match
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.clock import steady_s
from culm_models.bamboo.log_store import LogKey

_AT_A_TIME: Final = 1_000


class Retention:
    """Applies the retention rule of a policy to one folder, at the rule's interval.

    `may_drop` returns whether the payload of a log and sequence number is not needed, whatever the rule says.
    """

    def __init__(
        self, policy: FolderPolicy | None, store: FolderStore, may_drop: Callable[[LogKey, int], bool]
    ) -> None:
        self._store = store
        self._may_drop = may_drop
        self._completed_s = float("-inf")
        self.use(policy)

    def use(self, policy: FolderPolicy | None) -> None:
        """Use another policy from now on. With None, everything is kept."""
        self._rule = policy.retention if policy is not None else RetentionRule()

    def drop_due(self) -> list[tuple[LogKey, int]]:
        """Drop a bounded number of payloads if the interval is over. Returns the dropped payloads.

        The interval starts again when there is nothing more to drop. Call it if nothing else writes.
        """
        now_s = time.monotonic()
        if now_s - self._completed_s < self._rule.interval_s:
            return []
        dropped = retain(self._store, self._rule, steady_s(), self._may_drop)
        if not dropped:
            self._completed_s = now_s
        return dropped


def retain(
    store: FolderStore,
    rule: RetentionRule,
    now_s: float,
    may_drop: Callable[[LogKey, int], bool] = lambda log, seq_num: True,
) -> list[tuple[LogKey, int]]:
    """Drop a bounded number of payloads that the rule does not keep. Returns the dropped payloads.

    `may_drop` returns whether the payload of a log and sequence number is not needed, whatever the rule says.

    Call it again as long as it returns payloads, in `store.exclusively()` or if nothing else writes.
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
        # All of these are needed, or in logs that the rule does not match: look at more payloads.
        count *= 2
