"""Who has shown to have which of our messages (sds.md, Review ACK Status).

A message in a causal history is acknowledged. One that a filter contains is possibly acknowledged; when the
filters of enough distinct senders contain it, it counts as acknowledged. A sender whose filter has shown a
message is not asked about it again, so what a review costs is the new hits and the misses, and of these it
looks at a bounded number: the next review goes on where the last one stopped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

AckState: TypeAlias = Literal["unacknowledged", "possibly_acknowledged"]
HashPair: TypeAlias = tuple[int, int]


class Filter(Protocol):
    """What a review needs of a received filter; `bloom.ReceivedFilter` is one."""

    @property
    def is_evidence(self) -> bool:
        """Whether so few bits are set that a hit means something."""
        ...

    def contains(self, pair: HashPair, /) -> bool:
        """Whether all bits of the id with these hashes are set."""
        ...


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`by` has named the message in a causal history, or is the last of enough filters (`evidence`)."""

    participant_id: str
    message_id: str
    by: str
    how: Literal["history", "filters"]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PossiblyAcknowledged:
    """The filter of `by` contains the message; `evidence` are all senders so far, in the order they came."""

    participant_id: str
    message_id: str
    by: str
    evidence: tuple[str, ...]


Fact: TypeAlias = Acknowledged | PossiblyAcknowledged


class Acknowledgements:
    """The evidence for the messages that wait for acknowledgement."""

    def __init__(self, *, threshold: int, most_misses: int = 4_096) -> None:
        raise NotImplementedError

    def add(self, participant_id: str, message_id: str, pair: HashPair) -> None:
        """`participant_id` has sent this message; nobody has shown it yet."""
        raise NotImplementedError

    def remove(self, message_id: str) -> None:
        """The message is waited for no longer."""
        raise NotImplementedError

    def review(self, sender_id: str, history_ids: Iterable[str], filter: Filter | None) -> list[Fact]:
        """What a message of `sender_id` says of those that wait; acknowledged ones are removed.

        What a participant says of its own messages is no evidence. Facts come in the order of sending,
        those of the causal history first.
        """
        raise NotImplementedError

    def evidence(self, message_id: str) -> tuple[str, ...]:
        """The senders whose filter has shown the message, in the order they came."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError
