"""One document's ranges of logs, cut so that every operation comes after those that it refers to.

A node refuses an operation whose `previous` it does not know, and every operation of a document that it knows
to be deleted. So the logs are interleaved: each is sent up to the operation whose `previous` is not sent yet.
A delete waits until nothing else can be sent, and nothing follows it (`deletion` selects the operations
before it). References between operations are looked up by place, so that only the next entries of each log
are in memory, however long the document is.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from culm_connectors.logs.index.layout import Place
from culm_models.bamboo.log_store import LogInfo, LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange

STEPS_AHEAD = 65_536
"""Number of entries of a document that are read ahead, over all its logs (at least one per log)."""
_RANGES_AT_ONCE = 256


class Step(NamedTuple):
    """The requirements of one entry of a log: the operations that must come before it."""

    is_delete: bool
    previous: tuple[bytes, ...]


ReadSteps = Callable[[Iterable[EntryRange]], Awaitable[Mapping[LogKey, Sequence[Step]]]]
"""Reads the steps of ranges, as far as they are held."""


class Documents(Protocol):
    """The queries that the index answers."""

    @property
    def revision(self) -> int:
        """The number of the newest commit."""
        ...

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """Return the schema and document of a log, None if the log is unknown."""
        ...

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """Return the log in which an author writes to a document."""
        ...

    def place_of(self, operation_id: bytes) -> Place | None:
        """Return the place of an operation, None if it is not held."""
        ...

    def deletes_of(self, document_id: bytes) -> Iterator[tuple[LogKey, int]]:
        """Yield the logs that delete a document, each with the sequence number of its first delete."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries of one document that a session is to send."""

    document_id: bytes
    ranges: Sequence[EntryRange]
    """Missing entries, one range per log. Of other logs, the node has all that was held at planning time."""
    ends: Mapping[LogKey, int]
    """The last entry of each of these logs that is worth sending."""
    revision: int
    """The revision of the index when the plan was made; the node has no later entries."""
    unsettled: frozenset[LogKey]
    """Logs that the node is missing and whose document was not known when the plan was made."""
    deletes: Sequence[tuple[LogKey, int]] = ()
    """Some of the entries that delete the document; the node has none of them."""

    @property
    def ahead(self) -> int:
        """Number of entries of each log that are read ahead."""
        return max(1, STEPS_AHEAD // len(self.ranges))

    @property
    def beginnings(self) -> Iterator[EntryRange]:
        """The first part of each range, which is read at the beginning."""
        for part in self.ranges:
            last = min(self.ends[part.public_key, part.log_id], part.first_seq_num + self.ahead - 1)
            if last >= part.first_seq_num:
                yield cut(part, part.first_seq_num, last)


@dataclass(slots=True)
class _Log:
    part: EntryRange
    next: int
    end: int
    steps: deque[Step] = field(default_factory=deque)


class ReferenceState(Enum):
    """State of an operation that another refers to: the node has it, or does not get it in this session."""

    HELD = auto()
    NEVER = auto()


def predecessor(
    plan: Plan, documents: Documents, part: EntryRange, operation_id: bytes
) -> ReferenceState | Place:
    """Return the place of an operation that `part` refers to, if the plan sends it, else its state."""
    operation_place = documents.place_of(operation_id)
    if operation_place is None or operation_place.log in plan.unsettled:
        return ReferenceState.NEVER
    end = plan.ends.get(operation_place.log)
    if end is not None:
        return operation_place if operation_place.seq_num <= end else ReferenceState.NEVER
    if operation_place.revision > plan.revision:
        return ReferenceState.NEVER
    info, own = (documents.log_info(*log) for log in (operation_place.log, (part.public_key, part.log_id)))
    is_ours = (
        info is not None
        and own is not None
        and info.document_id == plan.document_id
        and info.schema_id == own.schema_id
    )
    return ReferenceState.HELD if is_ours else ReferenceState.NEVER


class OperationOrder:
    """The order of one plan; `steps` are those already read, the beginnings of its ranges."""

    def __init__(
        self, plan: Plan, documents: Documents, read: ReadSteps, steps: Mapping[LogKey, Sequence[Step]]
    ) -> None:
        self._plan = plan
        self._documents = documents
        self._read = read
        self._logs: dict[LogKey, _Log] = {}
        for part in plan.ranges:
            log = (part.public_key, part.log_id)
            ahead = deque(steps.get(log, ()))
            self._logs[log] = _Log(part, part.first_seq_num, plan.ends[log], ahead)
        self._waiting: defaultdict[LogKey, list[tuple[int, LogKey]]] = defaultdict(list)
        """By log, the logs that wait for one of its entries, as a heap by sequence number."""

    async def ranges(self) -> AsyncIterator[list[EntryRange]]:
        """Yield the ranges in the order of sending, up to 256 at a time, without entries that must wait."""
        parts: list[EntryRange] = []
        deletes: deque[LogKey] = deque()
        ready = deque(self._logs)
        while ready:
            key = ready.popleft()
            log = self._logs[key]
            first = log.next
            if await self._go_on(key, log):
                deletes.append(key)
            if log.next > first:
                parts.append(cut(log.part, first, log.next - 1))
                ready.extend(self._freed_by(key, log.next))
                if len(parts) == _RANGES_AT_ONCE:
                    yield parts
                    parts = []
        if deletes:
            log = self._logs[deletes[0]]
            parts.append(cut(log.part, log.next, log.next))
        if parts:
            yield parts

    async def _go_on(self, key: LogKey, log: _Log) -> bool:
        """Advance a log as far as possible; returns True if it is at a delete that could be sent."""
        while log.next <= log.end:
            if not log.steps:
                await self._read_on(key, log)
                if not log.steps:
                    break  # cut back meanwhile
            step = log.steps[0]
            behind = self._behind(log, step)
            if behind is not None:
                if isinstance(behind, Place):
                    heapq.heappush(self._waiting[behind.log], (behind.seq_num, key))
                break
            if step.is_delete:
                return True
            log.steps.popleft()
            log.next += 1
        return False

    async def _read_on(self, key: LogKey, log: _Log) -> None:
        last = min(log.end, log.next + self._plan.ahead - 1)
        log.steps.extend((await self._read([cut(log.part, log.next, last)])).get(key, ()))

    def _behind(self, log: _Log, step: Step) -> Place | ReferenceState | None:
        """Return the operation that a step waits for, or None; NEVER if this session does not send it."""
        for operation_id in step.previous:
            reference = predecessor(self._plan, self._documents, log.part, operation_id)
            if reference is ReferenceState.NEVER:
                return reference
            if isinstance(reference, Place) and reference.seq_num >= self._logs[reference.log].next:
                return reference
        return None

    def _freed_by(self, key: LogKey, following: int) -> Iterator[LogKey]:
        waiting = self._waiting.get(key)
        while waiting and waiting[0][0] < following:
            yield heapq.heappop(waiting)[1]


def cut(part: EntryRange, first: int, last: int) -> EntryRange:
    """Return the part of a range from `first` to `last`."""
    return EntryRange(part.session_id, part.public_key, part.log_id, first, last)
