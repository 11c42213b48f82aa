"""The second stage of a shard: rows and state in, records of `documents` out. A plain function.

A document is written if its state has changed. The same rows on the same state give the same bytes. The same
operations in other batches or another order end in the same records, as long as no limit of `settings` is
exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from culm_models.errors import CulmError
from culm_models.p2panda.operations.identifiers import DocumentId
from culm_streaming.errors import StateMissingError
from culm_streaming.kafka_io.fetching import RecordPlace
from culm_streaming.p2panda_documents.document_state import DocumentBlocks
from culm_streaming.p2panda_documents.output_records import document_record
from culm_streaming.p2panda_documents.reduction import Reduction, new_document
from culm_streaming.p2panda_documents.rows import RejectedRow, ResolvedRows, short_id, unpack_operations
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.waiting_operations import ArrivedOperation
from culm_streaming.stateful.job_state import JobState, place_of
from culm_topics.records import rejection

ReadFields = Callable[[Sequence[RecordPlace]], Iterable[tuple[RecordPlace, Mapping[str, bytes]]]]
"""Reads the fields of operations one by one, each value as CBOR or empty if it is too long for a record."""


@dataclass(slots=True)
class DocumentsOutput:
    """Records to write, (key, value) each."""

    documents: list[tuple[bytes, bytes]] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)


def shard_of(document_id: DocumentId, layout: DocumentsLayout) -> int:
    """Return the shard of a document."""
    return place_of(short_id(document_id), layout.shards, layout.blocks)[0]


def step(
    store: JobState, rows: ResolvedRows, layout: DocumentsLayout, read_fields: ReadFields, topic: str
) -> DocumentsOutput:
    """Apply `rows` to the documents of one shard; `topic` is the full name of `logs`.

    Returns the records to write.
    """
    arrivals: dict[DocumentId, list[tuple[str, ArrivedOperation]]] = {}
    for document_id, log, schema_id, operations in sorted(rows.documents):
        of_document = arrivals.setdefault(document_id, [])
        for operation in unpack_operations(operations):
            of_document.append((schema_id, ArrivedOperation(log, operation)))
    blocks = DocumentBlocks(store, layout)
    output = DocumentsOutput(rejected=sorted(rows.refused))
    changed: list[tuple[int, Reduction]] = []
    for document_id, of_document in sorted(arrivals.items()):
        short = short_id(document_id)
        block = place_of(short, layout.shards, layout.blocks)[1]
        state = blocks.get(block, short) or new_document(document_id, of_document)
        reduction = Reduction(store, state, layout.max_waiting_operations)
        reduction.add(of_document)
        output.rejected += [_rejected(arrival, error, topic) for arrival, error in reduction.refused]
        if reduction.is_changed:
            changed.append((block, reduction))
    _read_wanted([reduction for _, reduction in changed], read_fields)
    for block, reduction in changed:
        state = reduction.state
        blocks.put(block, short_id(state.document_id), state)
        record = document_record(state, max_value_bytes=layout.max_record_bytes)
        output.documents.append((state.document_id, record.encode()))
    blocks.save()
    return output


def _read_wanted(reductions: Iterable[Reduction], read_fields: ReadFields) -> None:
    """Fill in the values of fields that operations set which came in an earlier micro-batch."""
    wanted: dict[RecordPlace, list[tuple[Reduction, str]]] = {}
    for reduction in reductions:
        for name, past in reduction.wanted.items():
            wanted.setdefault((past.partition, past.offset), []).append((reduction, name))
    if not wanted:
        return
    for place, values in read_fields(sorted(wanted)):
        for reduction, name in wanted.pop(place, ()):
            fields = reduction.state.fields
            if fields is None or name not in values:
                raise _gone(reduction, name, place)
            fields[name][0] = values[name]
    for place, ((reduction, name), *_) in wanted.items():
        raise _gone(reduction, name, place)


def _gone(reduction: Reduction, name: str, place: RecordPlace) -> StateMissingError:
    return StateMissingError(
        f"the record of logs at {place[0]}/{place[1]} no longer has the field {name[:100]!r} of the document "
        f"{reduction.state.document_id.hex()}"
    )


def _rejected(arrival: ArrivedOperation, error: CulmError, topic: str) -> RejectedRow:
    operation = arrival.operation
    source = (topic, operation.partition, operation.offset)
    detail = f"operation {operation.operation_id.hex()}: {error}"
    return RejectedRow(arrival.log, rejection(error.code, detail, source=source).encode())
