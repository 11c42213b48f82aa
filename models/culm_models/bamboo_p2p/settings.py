"""Settings of an end: modes, windows, limits, and answers to proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, CancelCode, Eagerness, Propose, Setup

TURN_BYTES: Final = 64 * 1024
"""Bytes of a request that are sent before another request gets its slot (R63)."""

UNCHANGING_MESSAGES_MAX: Final = 1_024
"""Number of consecutive messages on a channel that change nothing after which the connection ends (R64)."""

COMPRESSED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum decompressed size of a message: a few bytes can expand to any size, and are processed at once."""

PLAIN_BYTES_A_TURN: Final = 16 * 1024 * 1024
"""Decompressed bytes after which control returns to the driver, even if more is left to be read."""

MESSAGES_A_TURN: Final = 512
"""Messages, or runs of complete entries, that are read before control returns to the driver."""

COMPRESSED_SLACK_BYTES: Final = 16
"""Bytes by which a compressed message may exceed twice its decompressed size (R56)."""

PAUSE_MS: Final = 30_000
"""Milliseconds for which data waits for the control message that it depends on (R7, R9)."""


class Direction(StrEnum):
    """The direction of data. It is a local setting and never sent (R65)."""

    BOTH = "both"
    PULL = "pull"
    PUSH = "push"


class PolicyAnswer(StrEnum):
    """The answer to a proposal that breaks no rule."""

    CONFIRM = "confirm"
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Policy:
    """The answer to proposals. `end` and `upper` replace those of the proposal if they are lower.

    `reveals`: a refusal may disclose what is held of the log. Otherwise every refusal is the policy's own
    code or 128, and a refused log is not looked up, so that it cannot be distinguished from a missing one.
    """

    answer: PolicyAnswer = PolicyAnswer.CONFIRM
    code: CancelCode = CancelCode.REFUSED
    eagerness: Eagerness = Eagerness.ALL
    threshold: int | None = None
    may_skip: bool = True
    min_size: int = 0
    max_size: int = MAX_SIZE
    end: int | None = None
    upper: int | None = None
    direction: Direction = Direction.BOTH
    reveals: bool = True


Answers = Callable[[Propose], Policy]
"""Returns the policy for a proposal. Called again for a proposal that had to wait."""


ExpectsPayload = Callable[[LogKey, int], bool]
"""Returns whether a missing payload (log and sequence number) is expected to arrive."""


def expects_none(log: LogKey, seq_num: int) -> bool:
    """Expect no payload."""
    return False


@dataclass(frozen=True, slots=True)
class BambooSettings:
    """Settings of an end. Windows are in bytes; `credit` limits the open proposals of the other end.

    `answers` replaces `policy` if it depends on the proposal. An expected payload is not skipped as
    unavailable. The driver reports by `Changes` if a payload is no longer expected.
    """

    sends_greedily: bool = False
    accepts_greedy: bool = False
    send_window: int = 65_536
    receive_window: int = 65_536
    credit: int = 64
    policy: Policy = field(default_factory=Policy)
    answers: Answers | None = None
    expects_payload: ExpectsPayload = expects_none

    def policy_for(self, proposal: Propose) -> Policy:
        """Return the policy for a proposal."""
        return self.policy if self.answers is None else self.answers(proposal)

    @property
    def setup(self) -> Setup:
        """The setup message, which is sent first."""
        return Setup(self.sends_greedily, self.accepts_greedy, self.send_window, self.receive_window)
