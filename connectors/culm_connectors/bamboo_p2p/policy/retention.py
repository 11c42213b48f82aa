"""Which payloads are dropped: those held for too long, and the oldest of too many. Entries always stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_connectors.bamboo_p2p.policy.document import RetentionRule, match
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey

_AT_A_TIME: Final = 1_000


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
