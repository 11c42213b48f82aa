"""SDS-R: asking other participants for missing messages, and answering them (reference, 1.3 and 3.1).

Who misses a message asks after T_req, who has it answers after T_resp, both spread by hashes; whoever sees
another's request or answer first puts off or drops its own. Both buffers are bounded: when one is full, what
is due last is left out, be it the newcomer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from culm_models.sds.messages import HistoryEntry
from culm_models.sds.profiles import RepairHash


@dataclass(frozen=True, slots=True)
class RepairRule:
    """`t_min_ms`, `t_max_ms`: the bounds of T_req; T_resp is below `t_max_ms`. `groups`: response groups.

    `gap_ms`: the least time between two messages that are sent for the sake of requests alone.
    """

    hash_rule: RepairHash = "sha256"
    t_min_ms: int = 30_000
    t_max_ms: int = 120_000
    groups: int = 1
    most_waiting: int = 1_000
    gap_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class Answer:
    """`participant_id`, one of ours, is to rebroadcast the message now, as it was."""

    participant_id: str
    message_id: str


class RepairBook:
    """Planned requests and answers of one channel, for all participants that this side hosts."""

    def __init__(self, rule: RepairRule) -> None:
        raise NotImplementedError

    def host(self, participants: Sequence[str]) -> None:
        """Whom this side hosts from now on; at most the first 16 ask and answer. None: nothing is planned."""
        raise NotImplementedError

    def want(self, entry: HistoryEntry, now_ms: int) -> bool:
        """A message is missing: plan a request. False when one is planned or there is no room."""
        raise NotImplementedError

    def got(self, message_id: str) -> None:
        """A copy of the message was received: no request, and no answer, for another has answered."""
        raise NotImplementedError

    def forget(self, message_id: str) -> None:
        """The message is given up as lost: no further requests."""
        raise NotImplementedError

    def requested_by(
        self, sender_id: str, entries: Iterable[HistoryEntry], have: Callable[[str], bool], now_ms: int
    ) -> list[str]:
        """Another participant asks. Own requests for the same are put off; what we have is planned.

        The ids of the answers that are planned newly.
        """
        raise NotImplementedError

    def requests(self, now_ms: int, most: int = 3) -> tuple[HistoryEntry, ...]:
        """What the message that is sent now asks for, earliest due first; planned anew with back-off."""
        raise NotImplementedError

    def answers(self, now_ms: int, most: int = 64) -> tuple[Answer, ...]:
        """What is to be rebroadcast now; it is dropped from the book."""
        raise NotImplementedError

    def requests_due_ms(self) -> int | None:
        """When a sync should be sent for the sake of requests; None when none is planned."""
        raise NotImplementedError

    def next_due_ms(self) -> int | None:
        """The earliest time at which a request or an answer is due; None when nothing is planned."""
        raise NotImplementedError

    def pack(self) -> bytes:
        """All of it as bytes, equal for equal histories."""
        raise NotImplementedError

    @classmethod
    def unpack(cls, data: bytes, rule: RepairRule) -> "RepairBook":
        """What `pack` wrote; `host` is to be called again."""
        raise NotImplementedError
