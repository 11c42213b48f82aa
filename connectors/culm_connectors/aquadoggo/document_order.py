"""Entries in the order in which a p2panda node can take them: operations after those they refer to.

A node refuses an operation whose `previous` it does not know, and ends the session with it, so that
everything behind is lost until the next session. So ranges of logs are grouped by document and cut where the
operations of several authors refer to each other. What a node refuses for another reason would still be in
the way of everything behind it, session after session: the document with which a session ended goes last from
then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

from culm_connectors.index.layout import log_key
from culm_connectors.index.store import Pair
from culm_connectors.p2panda.sessions import Link, LogKey
from culm_connectors.p2panda.surroundings import EntryReader
from culm_models.bamboo import entry_hash
from culm_models.p2panda.operation import peek
from culm_models.p2panda.ranges import EntryRange
from culm_models.p2panda.store import LogStore

logger = logging.getLogger(__name__)

_LOOKS_AT_ONCE = 1_024
_READ_BYTES = 1024 * 1024
_ENTRIES_AT_ONCE = 2_048
MAX_DOCUMENT_ENTRIES = 100_000
"""A document with more entries to send goes out log by log."""
_MAX_REMEMBERED = 1_000
_MAX_LAST = 10_000


class _Step(NamedTuple):
    """One entry of a log: its own operation id, and those that must come before it."""

    operation_id: bytes
    previous: tuple[bytes, ...]


@dataclass(slots=True)
class _Sent:
    """What was sent on one connection: to find out with which document its last session ended."""

    documents: list[tuple[bytes, dict[LogKey, int]]] = field(default_factory=list)
    """Documents in the order of sending, with the last sequence number that was sent of each log."""
    last: dict[bytes, None] = field(default_factory=dict)
    """Documents that go last, in this order."""


class DocumentOrder:
    """Arranges the ranges of logs that a session sends; an object serves all connections of a driver."""

    def __init__(self, store: LogStore, reader: EntryReader) -> None:
        self._store = store
        self._reader = reader
        self._sent: WeakKeyDictionary[Link, _Sent] = WeakKeyDictionary()

    async def arrange(self, link: Link, ranges: Sequence[EntryRange]) -> AsyncIterator[list[EntryRange]]:
        """The same ranges in parts, document by document, to be sent in this order."""
        sent = self._sent.setdefault(link, _Sent())
        documents = await self._by_document(ranges)
        self._find_the_end_of_the_last_session(link, sent, documents)
        sent.documents.clear()
        order = [document for document in documents if document not in sent.last]
        order += [document for document in sent.last if document in documents]
        for group in _batches(order, documents):
            together = [part for document in group for part in documents[document]]
            steps = None if _count(together) > MAX_DOCUMENT_ENTRIES else await self._read(together)
            for document in group:
                parts = documents[document]
                arranged = parts if steps is None else _arranged(parts, steps)
                if arranged:
                    if len(sent.documents) < _MAX_REMEMBERED:
                        heights = {(part.public_key, part.log_id): part.last_seq_num for part in arranged}
                        sent.documents.append((document, heights))
                    yield arranged

    async def _by_document(self, ranges: Sequence[EntryRange]) -> dict[bytes, list[EntryRange]]:
        """Ranges by document, in the order in which the documents' first ranges come.

        Logs whose document the store does not know come last, each for itself where it has none to go with.
        """
        documents: dict[bytes, list[EntryRange]] = {}
        strays: list[EntryRange] = []
        for count, part in enumerate(ranges):
            if count % _LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)
            info = self._store.log_info(part.public_key, part.log_id)
            if info is None or info.document_id is None:
                strays.append(part)
            else:
                documents.setdefault(info.document_id, []).append(part)
        begun = await self._read([EntryRange(0, part.public_key, part.log_id, 1, 1) for part in strays])
        for part in strays:
            log = (part.public_key, part.log_id)
            previous = (operation_id for step in begun[log] for operation_id in step.previous)
            document = next(filter(None, map(self._store.document_of, previous)), None)
            documents.setdefault(document or log_key(*log), []).append(part)
        return documents

    def _find_the_end_of_the_last_session(
        self, link: Link, sent: _Sent, documents: Mapping[bytes, list[EntryRange]]
    ) -> None:
        """The first document of which not all was taken is the one that ended the session."""
        for document, heights in sent.documents:
            for part in documents.get(document, ()):
                if part.first_seq_num <= heights.get((part.public_key, part.log_id), 0):
                    if document not in sent.last:
                        logger.warning("%s does not take document %s", link.name, document.hex())
                    sent.last.pop(document, None)
                    sent.last[document] = None
                    if len(sent.last) > _MAX_LAST:
                        del sent.last[next(iter(sent.last))]
                    return

    async def _read(self, ranges: Iterable[EntryRange]) -> dict[LogKey, list[_Step]]:
        """The steps of each log, as far as they are held."""
        steps: dict[LogKey, list[_Step]] = {}
        waiting = deque(ranges)
        while waiting:
            found = await self._reader.read_ranges(
                [(part.public_key, part.log_id, part.first_seq_num, part.last_seq_num) for part in waiting],
                _READ_BYTES,
            )
            for pairs in found:
                part = waiting.popleft()
                log = (part.public_key, part.log_id)
                steps.setdefault(log, []).extend(map(_step, pairs))
                first = part.first_seq_num + len(pairs)
                if pairs and first <= part.last_seq_num:
                    waiting.appendleft(EntryRange(part.session_id, *log, first, part.last_seq_num))
        return steps


def _arranged(
    ranges: Sequence[EntryRange], steps_by_log: Mapping[LogKey, Sequence[_Step]]
) -> list[EntryRange]:
    """One document's ranges, cut so that every operation comes after those that it refers to.

    Operations that are not among these ranges count as known to the node.
    """
    steps = [steps_by_log[part.public_key, part.log_id] for part in ranges]
    unsent = {step.operation_id for log in steps for step in log}
    waiting: defaultdict[bytes, list[int]] = defaultdict(list)
    positions = [0] * len(ranges)
    ready = deque(range(len(ranges)))
    arranged: list[EntryRange] = []
    while ready:
        index = ready.popleft()
        part, start = ranges[index], positions[index]
        for position in range(start, len(steps[index])):
            step = steps[index][position]
            missing = next(filter(unsent.__contains__, step.previous), None)
            if missing is not None:
                waiting[missing].append(index)
                break
            unsent.discard(step.operation_id)
            ready.extend(waiting.pop(step.operation_id, ()))
            positions[index] = position + 1
        if positions[index] > start:
            first, end = part.first_seq_num + start, part.first_seq_num + positions[index] - 1
            arranged.append(EntryRange(part.session_id, part.public_key, part.log_id, first, end))
    return arranged


def _step(pair: Pair) -> _Step:
    entry, operation = pair
    return _Step(entry_hash(entry), peek(operation)[2] or ())


def _count(ranges: Iterable[EntryRange]) -> int:
    return sum(part.last_seq_num - part.first_seq_num + 1 for part in ranges)


def _batches(
    order: Sequence[bytes], documents: Mapping[bytes, Sequence[EntryRange]]
) -> Iterator[list[bytes]]:
    """Documents to be read together: few round trips for small ones, little memory for large ones."""
    batch: list[bytes] = []
    size = 0
    for document in order:
        entries = _count(documents[document])
        if batch and size + entries > _ENTRIES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += entries
    if batch:
        yield batch
