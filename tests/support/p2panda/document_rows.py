"""Operations of a document as the job `documents` gets them, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from culm_models.p2panda.documents.document import AuthoredOperation, Document, DocumentView
from culm_streaming.kafka_io.fetching import RecordPlace
from culm_streaming.p2panda_documents.packing import encoded_fields
from culm_streaming.p2panda_documents.rows import DocumentRows, OperationRow, ResolvedRows, pack_operations
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.step import DocumentsOutput, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.p2panda.documents.record import DocumentRecord, OperationId

Authored = Iterable[AuthoredOperation]


def log_of(author: bytes) -> bytes:
    """Return the key of an author's log."""
    return author + bytes(8)


@dataclass(slots=True)
class Shard:
    """A shard of the job in memory, which holds `made`; `records` has the latest record of each document."""

    made: Sequence[AuthoredOperation]
    layout: DocumentsLayout = field(default_factory=lambda: DocumentsLayout(shards=1, blocks=4))
    store: MemoryState = field(default_factory=MemoryState)
    records: dict[bytes, bytes] = field(default_factory=dict)
    read: int = 0
    """Number of operations that were read in `logs` again."""

    def take(self, batch: Authored, document_id: OperationId | None = None) -> DocumentsOutput:
        """Apply a micro-batch."""
        output = step(self.store, self.rows(batch, document_id), self.layout, self._read_fields, "culm.logs")
        self.records.update(output.documents)
        return output

    def rows(self, batch: Authored, document_id: OperationId | None = None) -> ResolvedRows:
        """Return operations as rows, one row each."""
        places = {added.id: number for number, added in enumerate(self.made)}
        return ResolvedRows(
            documents=[
                DocumentRows(
                    document_id or self.made[0].id,
                    log_of(added.author),
                    added.operation.schema_id,
                    pack_operations(
                        [
                            OperationRow(
                                added.id,
                                added.operation.previous or (),
                                encoded_fields(added.operation, self.layout.max_value_bytes),
                                places[added.id] % 3,
                                places[added.id],
                            )
                        ]
                    ),
                )
                for added in batch
            ]
        )

    def document(self) -> DocumentRecord:
        """Return the latest record of the only document."""
        (record,) = self.records.values()
        return DocumentRecord.decode(record)

    def _read_fields(
        self, places: Sequence[RecordPlace]
    ) -> Iterator[tuple[RecordPlace, Mapping[str, bytes]]]:
        self.read += len(places)
        for place in places:
            operation = self.made[place[1]].operation
            yield place, encoded_fields(operation, self.layout.max_value_bytes) or {}


def assert_equal(record: DocumentRecord, document: Document) -> None:
    """Assert that a record says what the model says."""
    view = document.view()
    assert view is not None
    assert_shows(record, view)
    assert record.version == len(document.graph.order)
    waiting = sorted(node.id for node in document.graph.waiting())
    assert record.waiting == len(waiting)
    assert record.missing == tuple(sorted(document.graph.missing()))[:64]
    assert [problem.operation_id for problem in record.problems] == waiting[:16]


def assert_shows(record: DocumentRecord, view: DocumentView) -> None:
    """Assert that a record with all its values shows a view."""
    assert (record.schema_id, record.owner, record.view_id) == (view.schema_id, view.owner, view.view_id)
    fields = {field.name: (field.operation_id, field.author, field.read()) for field in record.fields}
    assert fields == (view.fields or {})
    assert record.state == ("deleted" if view.fields is None else "current")
