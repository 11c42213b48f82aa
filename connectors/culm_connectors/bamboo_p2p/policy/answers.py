"""What is said to a proposal, by the rule of the peer that sent it: pure, and of equal cost for every log.

An unknown log and a forbidden one are answered alike, before anything is looked up in the store: 128. What
may be read is known where something of it is held, or where it is followed.
"""

from __future__ import annotations

from dataclasses import dataclass

from culm_connectors.bamboo_p2p.policy.document import PeerRule
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.settings import Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, CancelCode, Eagerness


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is allowed of a log to a peer when a proposal comes."""

    is_known: bool
    is_paused: bool = False
    author_is_full: bool = False
    """As much is kept of the log's author as there may be."""
    peer_is_full: bool = False
    """The peer has brought as much as it may for now."""


FORBIDDEN = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.REFUSED, reveals=False)
LATER = Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.RESOURCES, reveals=False)


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
