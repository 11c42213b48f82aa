"""The documents of the peers and those of the topic `documents`, compared byte for byte.

A peer reduces the operations in its own store; the job `documents` reduces those of `logs`. Both are compared
as records of the topic without the places in `logs`, which a peer does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
from culm_infra.demo.p2panda.actors import PeerActor
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.identifiers import DocumentId
from culm_models.p2panda.operations.values import encode_value
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.p2panda.documents.record import (
    DOCUMENTS_TOPIC,
    MAX_MISSING,
    DocumentField,
    DocumentRecord,
    check_document_key,
)
from culm_topics.readers.partitions import read_to_end

Records = Mapping[DocumentId, DocumentRecord]


@dataclass(frozen=True, slots=True)
class DocumentAudit:
    """Comparison of the documents that peers hold with those of the topic.

    `behind`: documents of which the topic has fewer operations than a peer. `differing`: documents with other
    bytes although the topic has all operations. `held` are the documents of each peer by its name.
    """

    documents: int = 0
    behind: int = 0
    differing: int = 0
    held: Mapping[str, Records] = field(default_factory=dict)
    topic: Records = field(default_factory=dict)

    @property
    def alike(self) -> int:
        """Documents that have the same bytes everywhere."""
        return self.documents - self.behind - self.differing


def compare_documents(held: Mapping[str, Records], topic: Records) -> DocumentAudit:
    """Compare every document that a peer holds with the other peers' and the topic's."""
    ids = {document_id for records in held.values() for document_id in records}
    behind = differing = 0
    for document_id in ids:
        records = [records.get(document_id) for records in held.values()]
        record = topic.get(document_id)
        version = 0 if record is None else record.version
        if any(other is not None and other.version > version for other in records):
            behind += 1
        else:
            differing += any(other is None or _bytes(other) != _bytes(record) for other in records)
    return DocumentAudit(len(ids), behind, differing, held, topic)


def _bytes(record: DocumentRecord | None) -> bytes:
    return b"" if record is None else record.encode()


def held_documents(actor: PeerActor, logs: Iterable[LogKey]) -> dict[DocumentId, DocumentRecord]:
    """Reduce the documents of these logs from an actor's store."""
    infos = (actor.peer.store.log_info(*log) for log in logs)
    ids = {info.document_id for info in infos if info is not None and info.document_id is not None}
    documents = StoredDocuments(actor.peer.store)
    records = {document_id: _record(documents, document_id) for document_id in sorted(ids)}
    return {document_id: record for document_id, record in records.items() if record is not None}


def _record(documents: StoredDocuments, document_id: DocumentId) -> DocumentRecord | None:
    """Return a document of a store as a record of the topic; None if its create is not held."""
    document = documents.document(document_id)
    if document is None:
        return None
    view = document.view
    return DocumentRecord(
        view.schema_id,
        view.owner,
        "deleted" if view.fields is None else "current",
        document.operations,
        view.view_id,
        tuple(
            DocumentField(name, encode_value(value.value), value.operation_id, value.author, 0, 0)
            for name, value in sorted((view.fields or {}).items())
        ),
        document.waiting,
        document.missing[:MAX_MISSING],
        (),
    )


def read_documents(kafka: KafkaSettings) -> dict[DocumentId, DocumentRecord]:
    """Read the newest record of each document on the topic, without its places in `logs`."""
    newest: dict[DocumentId, DocumentRecord] = {}
    for message in read_to_end(kafka, DOCUMENTS_TOPIC):
        document_id, record = check_document_key(message.key), DocumentRecord.decode(message.value)
        # The job writes at least once: an older record may follow a newer one.
        if document_id not in newest or record.version >= newest[document_id].version:
            newest[document_id] = record
    return {document_id: _without_places(record) for document_id, record in newest.items()}


def _without_places(record: DocumentRecord) -> DocumentRecord:
    fields = tuple(stored._replace(partition=0, offset=0) for stored in record.fields)
    return replace(record, fields=fields, problems=())
