"""A message that waits for acknowledgement, and the rule of its re-sends: the records of `outgoing`."""

from dataclasses import dataclass
from typing import ClassVar

from culm_models.sds.acknowledgement import AckState
from culm_models.sds.errors import SdsError


class OutgoingFullError(SdsError):
    """As many messages of the participant as may wait for acknowledgement do so already."""

    code: ClassVar[str] = "sds.outgoing.full"


@dataclass(frozen=True, slots=True)
class ResendRule:
    """`attempts`: re-sends before a message is given up. `most_waiting`: messages of one participant."""

    unacknowledged_ms: int = 30_000
    possibly_acknowledged_ms: int = 120_000
    most_ms: int = 600_000
    attempts: int = 10
    possible_acks_threshold: int = 2
    most_waiting: int = 10_000


@dataclass(frozen=True, slots=True)
class Stripped:
    """Wire bytes without the filter: wire = before + filter field (value at `filter_mark`) + after."""

    before: bytes
    filter_mark: int
    after: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that waits for acknowledgement. `attempts`: how often it was sent again."""

    participant_id: str
    message_id: str
    stripped: Stripped
    state: AckState
    evidence: tuple[str, ...]
    attempts: int
    next_due_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """`resend`: to be sent again now (attempts counted already). `gave_up`: out, as they were."""

    resend: tuple[Pending, ...] = ()
    gave_up: tuple[Pending, ...] = ()
