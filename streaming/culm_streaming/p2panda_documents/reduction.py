"""Applies the operations of a micro-batch to one document: a plain function.

An operation that follows all heads is the last in the linear order, if the order ends with a head: it takes
constant time. The others of a batch take one walk together (`culm_models.p2panda.documents.graph`), from the
last bottleneck before the first of them. The result depends on the set of operations alone, as long as no
limit is exceeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from culm_models.errors import CulmError
from culm_models.p2panda.documents.errors import OtherSchemaError, SecondCreateError
from culm_models.p2panda.documents.graph import Graph
from culm_models.p2panda.documents.linear_order import Node
from culm_models.p2panda.operations.identifiers import DocumentId, OperationId
from culm_streaming.errors import StateMissingError
from culm_streaming.p2panda_documents.document_state import DocumentState
from culm_streaming.p2panda_documents.errors import DocumentFullError
from culm_streaming.p2panda_documents.history import (
    RECENT_BYTES,
    AppliedOperation,
    append_to_pages,
    pack_history,
    packed_item,
    page_of,
    read_pages,
    unpack_history,
    write_pages,
)
from culm_streaming.p2panda_documents.rows import short_id
from culm_streaming.p2panda_documents.waiting_operations import (
    MAX_WAITING_BYTES,
    ArrivedOperation,
    load_waiting,
    missing,
    save_waiting,
    size_of,
)
from culm_streaming.stateful.job_state import JobState
from culm_topics.p2panda.documents.record import MAX_MISSING, MAX_PROBLEMS

MAX_HEADS: Final = 1_024
"""Largest number of heads of a document: a record names all of them."""
MAX_FIELDS: Final = 1_024
"""Largest number of fields of a document; of more, those with the lowest names are kept."""


def new_document(document_id: DocumentId, arrivals: Iterable[tuple[str, ArrivedOperation]]) -> DocumentState:
    """Return a document without operations whose create is among the first ones that arrive.

    Raises `StateMissingError` if it is not: the log of the create is found before any other of its document.
    """
    for schema_id, arrival in arrivals:
        if arrival.operation.operation_id == document_id:
            return DocumentState(document_id, schema_id, arrival.log[:32])
    raise StateMissingError(f"the create operation of {document_id.hex()} is missing")


@dataclass(slots=True)
class Reduction:
    """The reduction of one document in one micro-batch.

    `wanted` are fields whose value has to be read from `logs`, with the operation that sets each.
    """

    store: JobState
    state: DocumentState
    max_waiting: int
    is_changed: bool = False
    refused: list[tuple[ArrivedOperation, CulmError]] = field(default_factory=list)
    wanted: dict[str, AppliedOperation] = field(default_factory=dict)
    appended: list[bytes] = field(default_factory=list)
    """Packed operations behind those of the state."""

    def add(self, arrivals: Iterable[tuple[str, ArrivedOperation]]) -> None:
        """Add operations with their schemas, in any order; repeats have no effect.

        If the document is new, they include its create.
        """
        following: dict[tuple[OperationId, ...], dict[OperationId, ArrivedOperation]] = {}
        for schema_id, arrival in arrivals:
            operation = arrival.operation
            if operation.operation_id == self.state.document_id:
                if not self.state.version:
                    self._append(arrival)
            elif self._is_allowed(schema_id, arrival):
                following.setdefault(operation.previous, {})[operation.operation_id] = arrival
        waiting = load_waiting(self.store, self._short_id) if self.state.waiting else []
        self._follow(following, {i for arrival in waiting for i in arrival.operation.previous})
        remaining = [arrival for same in following.values() for arrival in same.values()]
        if remaining:
            self._merge(remaining, waiting)
        self._settle()

    @property
    def _short_id(self) -> bytes:
        return short_id(self.state.document_id)

    def _is_allowed(self, schema_id: str, arrival: ArrivedOperation) -> bool:
        error: CulmError
        if not arrival.operation.previous:
            error = SecondCreateError(f"the document was created by {self.state.document_id.hex()}")
        elif schema_id != self.state.schema_id:
            error = OtherSchemaError(
                f"{schema_id[:100]} is not the document's schema, {self.state.schema_id[:100]}"
            )
        else:
            return True
        self._refuse(arrival, error)
        return False

    def _refuse(self, arrival: ArrivedOperation, error: CulmError) -> None:
        self.refused.append((arrival, error))
        problem = (arrival.operation.operation_id, error.code)
        refused = sorted({*self.state.refused, problem})[:MAX_PROBLEMS]
        if refused != self.state.refused:
            self.state.refused = refused
            self.is_changed = True

    def _follow(
        self,
        following: dict[tuple[OperationId, ...], dict[OperationId, ArrivedOperation]],
        awaited: Set[OperationId],
    ) -> None:
        """Apply operations while exactly one follows all heads, and remove them from `following`.

        Stops before one that others wait for.
        """
        state = self.state
        while following and state.ends_with_head:
            heads = tuple(state.heads) if len(state.heads) == 1 else tuple(sorted(state.heads))
            candidates = following.get(heads)
            if candidates is None or len(candidates) != 1 or not awaited.isdisjoint(candidates):
                return
            del following[heads]
            (arrival,) = candidates.values()
            self._append(arrival)

    def _append(self, arrival: ArrivedOperation) -> None:
        """Apply an operation that follows all heads."""
        state = self.state
        operation_id, previous, fields, partition, offset = arrival.operation
        author = arrival.log[:32]
        self.appended.append(
            packed_item(
                operation_id,
                author,
                previous,
                None if fields is None else tuple(fields),
                partition,
                offset,
                True,
                state.last_id,
            )
        )
        state.last_id = operation_id
        state.heads = {operation_id}
        state.version += 1
        self.is_changed = True
        if fields is None:
            state.fields = None
        elif state.fields is not None:
            for name, value in fields.items():
                state.fields[name] = [value, operation_id, author, partition, offset]

    def _merge(self, arrivals: Sequence[ArrivedOperation], waiting: list[ArrivedOperation]) -> None:
        """Apply operations that do not simply follow all heads, and those that waited for them."""
        state = self.state
        pages = read_pages(self.store, self._short_id, state.pages)
        if pages is None:
            error = DocumentFullError(
                "the document has so many operations that only the next ones are applied"
            )
            for arrival in arrivals:
                self._refuse(arrival, error)
            return
        past = unpack_history(b"".join([pages, state.recent, *self.appended]))
        positions = {operation.id: position for position, operation in enumerate(past)}
        held = {arrival.operation.operation_id for arrival in waiting}
        new = [
            arrival
            for arrival in arrivals
            if (i := arrival.operation.operation_id) not in positions and i not in held
        ]
        if not new:
            return
        self.is_changed = True
        added, still_waiting = self._connect([*waiting, *new], positions.keys())
        self._keep_waiting(still_waiting, held, [*positions, *(a.operation.operation_id for a in added)])
        if not added:
            return
        changed_at = min(
            positions[i] for arrival in added for i in arrival.operation.previous if i in positions
        )
        start = _last_bottleneck(past, positions, changed_at)
        behind, ends_with_repeated = _reordered(past[start:], added)
        state.version += len(added)
        state.ends_with_head = behind[-1].id in state.heads and not ends_with_repeated
        self._set_fields(behind, {arrival.operation.operation_id: arrival for arrival in added})
        self._replace_history(past, start, behind)

    def _connect(
        self, candidates: Iterable[ArrivedOperation], known: Iterable[OperationId]
    ) -> tuple[list[ArrivedOperation], list[ArrivedOperation]]:
        """Return the operations whose predecessors are all here, up to the create, and those that wait."""
        state = self.state
        connected = set(known)
        added: list[ArrivedOperation] = []
        awaiting: dict[OperationId, list[tuple[ArrivedOperation, int]]] = {}
        """Operations by the one that they wait for, with the number of those before it in `previous`."""
        # In this order limits hit the same operations whatever the order of arrival within the batch.
        due = [(arrival, 0) for arrival in sorted(candidates, key=_operation_id, reverse=True)]
        while due:
            arrival, at = due.pop()
            operation_id, previous = arrival.operation[:2]
            while at < len(previous) and previous[at] in connected:
                at += 1
            if at < len(previous):
                awaiting.setdefault(previous[at], []).append((arrival, at))
                continue
            heads = state.heads.difference(previous)
            if len(heads) >= MAX_HEADS:
                self._refuse(arrival, DocumentFullError(f"the document has {MAX_HEADS} heads already"))
                continue
            heads.add(operation_id)
            state.heads = heads
            connected.add(operation_id)
            added.append(arrival)
            due += awaiting.pop(operation_id, ())
        return added, [arrival for waiting in awaiting.values() for arrival, _ in waiting]

    def _keep_waiting(
        self, waiting: list[ArrivedOperation], held: set[OperationId], known: Iterable[OperationId]
    ) -> None:
        state = self.state
        # Those that wait already stay, then lower ids take precedence.
        waiting.sort(key=lambda arrival: (_operation_id(arrival) not in held, _operation_id(arrival)))
        arrivals, waiting = waiting, []
        size_bytes = 0
        for arrival in arrivals:
            added_bytes = size_of(arrival)
            if len(waiting) < self.max_waiting and size_bytes + added_bytes <= MAX_WAITING_BYTES:
                size_bytes += added_bytes
                waiting.append(arrival)
            else:
                what = f"{len(waiting)} operations of the document wait already, with {size_bytes} bytes"
                self._refuse(arrival, DocumentFullError(what))
        save_waiting(self.store, self._short_id, waiting)
        state.waiting = len(waiting)
        state.waiting_ids = sorted(map(_operation_id, waiting))[:MAX_PROBLEMS]
        state.missing = sorted(missing(waiting, known))[:MAX_MISSING]

    def _set_fields(
        self, behind: Sequence[AppliedOperation], added: dict[OperationId, ArrivedOperation]
    ) -> None:
        """Bring the fields up to date with the end of the linear order."""
        state = self.state
        if state.fields is None or any(operation.names is None for operation in behind):
            state.fields = None
            return
        winners = {name: operation for operation in behind for name in operation.names or ()}
        for name, operation in winners.items():
            current = state.fields.get(name)
            if current is not None and current[1] == operation.id:
                continue
            arrival = added.get(operation.id)
            value = b""
            if arrival is None or not arrival.has_values:
                self.wanted[name] = operation
            else:
                value = (arrival.operation.fields or {})[name]
            state.fields[name] = [
                value,
                operation.id,
                operation.author,
                operation.partition,
                operation.offset,
            ]

    def _replace_history(
        self, past: Sequence[AppliedOperation], start: int, behind: Sequence[AppliedOperation]
    ) -> None:
        state = self.state
        number, first = len(state.pages), len(past) - state.recent_count - len(self.appended)
        is_paged = start < first
        if is_paged:
            number, first = page_of(state.pages, start)
        packed = pack_history([*past[first:start], *behind], past[first - 1].id if first else b"")
        if is_paged:
            state.pages = write_pages(self.store, self._short_id, state.pages, number, packed)
            packed = []
        state.recent, state.recent_count, self.appended = b"", 0, packed
        state.last_id = behind[-1].id

    def _settle(self) -> None:
        """Keep the limits of the state."""
        state = self.state
        if len(state.recent) + sum(map(len, self.appended)) >= RECENT_BYTES:
            packed = [(state.recent, state.recent_count), *((piece, 1) for piece in self.appended)]
            state.pages = append_to_pages(self.store, self._short_id, state.pages, packed)
            state.recent, state.recent_count = b"", 0
        else:
            state.recent += b"".join(self.appended)
            state.recent_count += len(self.appended)
        self.appended = []
        if state.fields is not None and len(state.fields) > MAX_FIELDS:
            state.has_too_many_fields = True
            state.fields = {name: state.fields[name] for name in islice(sorted(state.fields), MAX_FIELDS)}
        if self.wanted:
            fields = state.fields or {}
            self.wanted = {name: past for name, past in self.wanted.items() if name in fields}


def _last_bottleneck(
    past: Sequence[AppliedOperation], positions: Mapping[OperationId, int], changed_at: int
) -> int:
    """Return the last position up to `changed_at` of a bottleneck that is still one.

    Operations that follow all heads may name ones before the last of these.
    """
    named_from = changed_at
    for position in range(len(past) - 1, 0, -1):
        operation = past[position]
        if position <= named_from and operation.is_bottleneck:
            return position
        named_from = min(named_from, *(positions[i] for i in operation.previous))
    return 0


def _reordered(
    past: Sequence[AppliedOperation], added: Iterable[ArrivedOperation]
) -> tuple[list[AppliedOperation], bool]:
    """Return the linear order from its bottleneck `past[0]` on, with the added operations.

    Also returns whether the last one is applied more than once.
    """
    graph = Graph()
    places = {operation.id: operation for operation in past}
    root, *behind = past
    graph.add(Node(root.id, root.author, (), root.names))
    for operation in behind:
        graph.add(Node(operation.id, operation.author, operation.previous, operation.names))
    for arrival in added:
        operation_id, previous, fields, partition, offset = arrival.operation
        names = None if fields is None else tuple(fields)
        author = arrival.log[:32]
        places[operation_id] = AppliedOperation(
            operation_id, author, previous, names, partition, offset, False
        )
        graph.add(Node(operation_id, author, previous, names))
    graph.settle()
    bottlenecks = set(graph.bottlenecks)
    order = [
        places[node.id]._replace(is_bottleneck=position in bottlenecks)
        for position, node in enumerate(graph.order)
    ]
    return order, graph.order[-1].is_repeated


def _operation_id(arrival: ArrivedOperation) -> OperationId:
    return arrival.operation.operation_id
