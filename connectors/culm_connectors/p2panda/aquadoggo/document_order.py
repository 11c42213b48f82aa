"""Entries in the order in which a p2panda node can take them, without those that it cannot take.

A node refuses an operation whose `previous` it does not know, and ends the session with it, so that
everything behind is lost until the next session (p2panda, "replication"; aquadoggo 0.9.1). So ranges of logs
are grouped by document, and each document is sent in the order of its operations (`operation_order`), a
deleted one up to the delete (`deletion`). An entry that cannot be put in order yet, because an operation
before it is not held here, waits: every session that the node begins checks it again. An entry that a node
refuses for another reason would block all entries behind it in every session: it is sent last from then on,
and less and less often (`refusals`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from culm_connectors.logs.index.layout import Pair
from culm_connectors.p2panda.aquadoggo.deletion import DELETES_LOOKED_AT, up_to_the_delete
from culm_connectors.p2panda.aquadoggo.operation_order import Documents, OperationOrder, Plan, Step
from culm_connectors.p2panda.aquadoggo.refusals import Refusals
from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.p2panda.connections.shared import EntryReader
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.operation import peek
from culm_models.p2panda.reconciliation.ranges import EntryRange

_LOOKS_AT_ONCE = 1_024
_READ_BYTES = 1024 * 1024
_ENTRIES_AT_ONCE = 2_048


class DocumentOrder:
    """Arranges the ranges of logs that a session sends; an object serves all connections of a driver."""

    def __init__(self, documents: Documents, reader: EntryReader) -> None:
        self._documents = documents
        self._reader = reader
        self._refusals: WeakKeyDictionary[PeerLink, Refusals] = WeakKeyDictionary()

    async def arrange(self, link: PeerLink, ranges: Sequence[EntryRange]) -> AsyncIterator[list[EntryRange]]:
        """Yield the parts of these ranges that the node can take, in the order in which to send them."""
        revision = self._documents.revision
        refusals = self._refusals.setdefault(link, Refusals(link.name))
        refusals.begin({(part.public_key, part.log_id): part for part in ranges})
        parts_by_document, unsettled = await self._by_document(ranges)
        suspects = {
            document_id
            for document_id, parts in parts_by_document.items()
            if any(refusals.is_suspect((part.public_key, part.log_id)) for part in parts)
        }
        order = [document_id for document_id in parts_by_document if document_id not in suspects]
        order += [document_id for document_id in parts_by_document if document_id in suspects]
        plans = (
            self._plan(document_id, parts_by_document[document_id], refusals, revision, unsettled)
            for document_id in order
        )
        for whole in _batches(plan for plan in plans if plan is not None):
            batch = [await up_to_the_delete(plan, self._documents, self._read) for plan in whole]
            steps = await self._read(part for plan in batch for part in plan.beginnings)
            for plan in batch:
                async for arranged in OperationOrder(plan, self._documents, self._read, steps).ranges():
                    for part in arranged:
                        refusals.sent(plan.document_id, part)
                    yield arranged

    async def _by_document(
        self, ranges: Sequence[EntryRange]
    ) -> tuple[dict[bytes, list[EntryRange]], frozenset[LogKey]]:
        """Return ranges by document, in the order of the documents' first ranges.

        Also returns the logs whose document is unknown: the operations that they follow are not held.
        """
        parts_by_document: dict[bytes, list[EntryRange]] = {}
        unsettled: set[LogKey] = set()
        for count, part in enumerate(ranges):
            if count % _LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)
            info = self._documents.log_info(part.public_key, part.log_id)
            if info is None or info.document_id is None:
                unsettled.add((part.public_key, part.log_id))
            else:
                parts_by_document.setdefault(info.document_id, []).append(part)
        return parts_by_document, frozenset(unsettled)

    def _plan(
        self,
        document_id: bytes,
        parts: Sequence[EntryRange],
        refusals: Refusals,
        revision: int,
        unsettled: frozenset[LogKey],
    ) -> Plan | None:
        """Return the plan for a document; None if the node holds a delete of it and takes no more."""
        missing = {(part.public_key, part.log_id): part for part in parts}
        deletes: list[tuple[LogKey, int]] = []
        for log, seq_num in self._documents.deletes_of(document_id):
            if log not in missing or seq_num < missing[log].first_seq_num:
                return None
            if len(deletes) < DELETES_LOOKED_AT:
                deletes.append((log, seq_num))
        begun = {part.public_key for part in parts if part.first_seq_num > 1}
        ends = {
            log: refusals.end_of(part)
            if self._is_the_log_of(document_id, part, begun)
            else part.first_seq_num - 1
            for log, part in missing.items()
        }
        return Plan(document_id, parts, ends, revision, unsettled, deletes)

    def _is_the_log_of(self, document_id: bytes, part: EntryRange, begun: set[bytes]) -> bool:
        """Whether a node takes this log: of the document's schema, and the only one of its author.

        `begun` are the authors of which the node holds the beginning of a log in these ranges.
        """
        created, own = self._documents.place_of(document_id), (part.public_key, part.log_id)
        schemas = {
            info.schema_id
            for log in (own, created.log if created is not None else own)
            if (info := self._documents.log_info(*log)) is not None
        }
        if len(schemas) > 1:
            return False
        if part.public_key in begun:
            return part.first_seq_num > 1
        return self._documents.log_of(part.public_key, document_id) == part.log_id

    async def _read(self, ranges: Iterable[EntryRange]) -> dict[LogKey, list[Step]]:
        """Return the steps of each log, as far as they are held."""
        steps: dict[LogKey, list[Step]] = {}
        waiting = deque(ranges)
        while waiting:
            parts_read = await self._reader.read_ranges(
                [(part.public_key, part.log_id, part.first_seq_num, part.last_seq_num) for part in waiting],
                _READ_BYTES,
            )
            for pairs in parts_read:
                part = waiting.popleft()
                log = (part.public_key, part.log_id)
                steps.setdefault(log, []).extend(map(_step, pairs))
                first = part.first_seq_num + len(pairs)
                if pairs and first <= part.last_seq_num:
                    waiting.appendleft(EntryRange(part.session_id, *log, first, part.last_seq_num))
        return steps


def _step(pair: Pair) -> Step:
    action, _, previous = peek(pair[1])
    return Step(action == "delete", previous or ())


def _batches(plans: Iterable[Plan]) -> Iterator[list[Plan]]:
    """Yield documents to be read together: few round trips for small ones, little memory for large ones."""
    batch: list[Plan] = []
    size = 0
    for plan in plans:
        entries = sum(part.last_seq_num - part.first_seq_num + 1 for part in plan.beginnings)
        if batch and size + entries > _ENTRIES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(plan)
        size += entries
    if batch:
        yield batch
