"""Evidence of the participants that have a sent message (sds.md, Review ACK Status).

A message in a causal history is acknowledged. A message that a filter contains is possibly acknowledged; once
the filters of enough distinct senders contain it, it counts as acknowledged. Equal filters have the same
false positives, so they count once, whoever sends them. A message is not looked up again for a sender whose
filter already contained it, so a review costs the new hits and the misses. The number of misses is limited:
the next review continues where the last one stopped.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from culm_models.sds.events import Acknowledged, PossiblyAcknowledged

HashPair: TypeAlias = tuple[int, int]
Groups: TypeAlias = list[tuple[tuple[str, ...], tuple[str, ...]]]

_BY_NUMBER: Final = attrgetter("number")


class Filter(Protocol):
    """The interface that a review needs of a received filter; `ReceivedFilter` implements it."""

    @property
    def is_evidence(self) -> bool:
        """Whether so few bits are set that a hit is evidence."""
        ...

    @property
    def digest(self) -> bytes:
        """A hash of the filter: equal for equal filters."""
        ...

    def contains(self, pair: HashPair, /) -> bool:
        """Whether all bits of the id with these hashes are set."""
        ...


AckEvent: TypeAlias = Acknowledged | PossiblyAcknowledged


class _Waiting:
    """A message with its place in the order of sending, and the senders and filters that contained it."""

    __slots__ = ("evidence", "filters", "message_id", "number", "pair", "participant_id")

    def __init__(self, number: int, participant_id: str, message_id: str, pair: HashPair) -> None:
        self.number = number
        self.participant_id = participant_id
        self.message_id = message_id
        self.pair = pair
        self.evidence: tuple[str, ...] = ()
        self.filters: tuple[bytes, ...] = ()


class Acknowledgements:
    """The evidence for the messages that wait for acknowledgement."""

    def __init__(self, *, threshold: int, max_misses: int = 4_096) -> None:
        assert threshold >= 1, "an acknowledgement needs evidence"
        assert max_misses >= 1, "a review looks at something"
        self._threshold = threshold
        self._max_misses = max_misses
        self._waiting: dict[str, _Waiting] = {}
        # Messages of the same evidence form a group, so that those of a sender's earlier hits are skipped at
        # once. Both orders rotate: messages that a review looked up without a hit go to the end.
        self._groups: OrderedDict[tuple[str, ...], OrderedDict[str, _Waiting]] = OrderedDict()

    def add(self, number: int, participant_id: str, message_id: str, pair: HashPair) -> None:
        """Add a message of `participant_id`, the `number`th of all; there is no evidence for it yet."""
        assert message_id not in self._waiting, "a message is sent once"
        waiting = _Waiting(number, participant_id, message_id, pair)
        self._waiting[message_id] = waiting
        self._join(waiting)

    def remove(self, message_id: str) -> None:
        """Remove a message, which no longer waits."""
        self._part(self._waiting.pop(message_id))

    def evidence(self, message_id: str) -> tuple[str, ...]:
        """Return the senders whose filter contained the message, in order of arrival."""
        return self._waiting[message_id].evidence

    def review(self, sender_id: str, history_ids: Iterable[str], filter: Filter | None) -> list[AckEvent]:
        """Review the waiting messages with a message of `sender_id`; acknowledged messages are removed.

        A participant's statements about its own messages are no evidence. Events are in the order of sending,
        those of the causal history first.
        """
        if not self._waiting:
            return []
        events: list[AckEvent] = [
            Acknowledged(waiting.message_id, waiting.participant_id, "causal_history", (sender_id,))
            for waiting in self._named(sender_id, history_ids)
        ]
        if filter is not None and self._waiting and filter.is_evidence:
            events += [self._shown(waiting, sender_id, filter) for waiting in self._hits(sender_id, filter)]
        return events

    def filters(self, message_id: str) -> tuple[bytes, ...]:
        """Return the digests of the filters that contained the message, in the order of `evidence`."""
        return self._waiting[message_id].filters

    def restore_filters(self, message_id: str, filters: Iterable[bytes]) -> None:
        """Restore the result of `filters` for a message that was added again."""
        self._waiting[message_id].filters = tuple(filters)

    def groups(self) -> Groups:
        """Return each evidence with its message ids, in the order of review, for `restore`."""
        return [(evidence, tuple(group)) for evidence, group in self._groups.items()]

    def restore(self, groups: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Restore the order and evidence of `groups` for messages that were added again."""
        self._groups.clear()
        for senders, message_ids in groups:
            for message_id in message_ids:
                waiting = self._waiting[message_id]
                waiting.evidence = tuple(senders)
                self._join(waiting)

    def _named(self, sender_id: str, history_ids: Iterable[str]) -> list[_Waiting]:
        named: list[_Waiting] = []
        for message_id in history_ids:
            waiting = self._waiting.get(message_id)
            if waiting is not None and waiting.participant_id != sender_id:
                self.remove(message_id)
                named.append(waiting)
        named.sort(key=_BY_NUMBER)
        return named

    def _hits(self, sender_id: str, filter: Filter) -> list[_Waiting]:
        """Return the messages that are newly contained in this sender's filter, in the order of sending."""
        hits: list[_Waiting] = []
        left = self._max_misses
        groups = self._groups
        for _ in range(len(groups)):
            if left <= 0:
                break
            evidence, group = next(iter(groups.items()))
            groups.move_to_end(evidence)
            left = left - 1 if sender_id in evidence else _probe(group, sender_id, filter, left, hits)
        hits.sort(key=_BY_NUMBER)
        return hits

    def _shown(self, waiting: _Waiting, sender_id: str, filter: Filter) -> AckEvent:
        evidence = (*waiting.evidence, sender_id)
        participant_id, message_id = waiting.participant_id, waiting.message_id
        if len(evidence) >= self._threshold:
            self.remove(message_id)
            return Acknowledged(message_id, participant_id, "bloom_filter", evidence)
        self._part(waiting)
        waiting.evidence = evidence
        waiting.filters += (filter.digest,)
        self._join(waiting)
        return PossiblyAcknowledged(message_id, participant_id, evidence)

    def _join(self, waiting: _Waiting) -> None:
        self._groups.setdefault(waiting.evidence, OrderedDict())[waiting.message_id] = waiting

    def _part(self, waiting: _Waiting) -> None:
        group = self._groups[waiting.evidence]
        del group[waiting.message_id]
        if not group:
            del self._groups[waiting.evidence]


def _probe(
    group: OrderedDict[str, _Waiting], sender_id: str, filter: Filter, left: int, hits: list[_Waiting]
) -> int:
    """Look up the messages of a group until `left` lookups missed. Returns how many misses are left."""
    contains = filter.contains
    missed: list[str] = []
    for waiting in group.values():
        if left <= 0:
            break
        if (
            waiting.participant_id != sender_id
            and contains(waiting.pair)
            and (not waiting.filters or filter.digest not in waiting.filters)
        ):
            hits.append(waiting)
        else:
            left -= 1
            missed.append(waiting.message_id)
    else:
        # All were looked up: rotating the group would change nothing.
        return left
    for message_id in missed:
        group.move_to_end(message_id)
    return left
