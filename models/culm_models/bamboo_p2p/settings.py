"""What an end is told: its modes and windows, how much it takes on, and how it answers proposals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, CancelCode, Eagerness, Propose, Setup

TURN_BYTES: Final = 64 * 1024
"""How much of one request goes out before another has its turn (R63)."""

UNCHANGING_MESSAGES_MAX: Final = 1_024
"""So many messages in a row that change nothing, on one channel, end a connection (R64)."""

COMPRESSED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What one compressed message may stand for: a few bytes can stand for any number, and are done in one go."""

PLAIN_BYTES_A_TURN: Final = 16 * 1024 * 1024
"""So much comes out of compressed data before the driver has its turn, whatever is left to be read."""

MESSAGES_A_TURN: Final = 512
"""So many messages, or whole entries in a row, are read before the driver has its turn."""

COMPRESSED_SLACK_BYTES: Final = 16
"""A compressed message has at most twice the bytes that it stands for, and these (R56)."""

PAUSE_MS: Final = 30_000
"""How long data waits for the control message that gives it meaning (R7, R9)."""


class Direction(StrEnum):
    """Which way data goes; a matter of this end alone, never on the wire (R65)."""

    BOTH = "both"
    PULL = "pull"
    PUSH = "push"


class PolicyAnswer(StrEnum):
    """What is said to a proposal to which the rules have no objection."""

    CONFIRM = "confirm"
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Policy:
    """How proposals are answered. `end` and `upper` lower those of the proposal, where they are lower.

    `reveals`: a refusal may say what is held of the log. Without it every refusal is the policy's own or 128,
    and a log that is refused is not even looked at: it cannot be told from one that is not there.
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
"""Says by which policy a proposal is answered; asked again for one that had to wait."""


ExpectsPayload = Callable[[LogKey, int], bool]
"""Whether a payload that is not held, of a log by its sequence number, is on its way to here."""


def expects_none(log: LogKey, seq_num: int) -> bool:
    """What is not here does not come from elsewhere."""
    return False


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Windows in bytes; `credit` is how many proposals of the other end may stand at a time.

    `answers` takes the place of the one `policy` where proposals are not all answered alike. A payload that
    is expected is not passed over as one that cannot be had; who stops expecting it says so by `Changes`.
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
        """How a proposal is answered."""
        return self.policy if self.answers is None else self.answers(proposal)

    @property
    def setup(self) -> Setup:
        """What the other end is told first."""
        return Setup(self.sends_greedily, self.accepts_greedy, self.send_window, self.receive_window)
