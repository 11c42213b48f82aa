"""Sources of the documents that commands read: the topic of a deployment, or a peer's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from culm_infra.cli.kit.data_folder import with_folder
from culm_infra.cli.kit.options import KAFKA_FLAGS, KafkaFlags, refuse
from culm_infra.cli.kit.output import Results, counting
from culm_infra.cli.p2panda.peer_home import peer_id_of, store
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
    from culm_models.p2panda.documents.document import DocumentView
    from culm_models.p2panda.documents.typed import TypedDocument
    from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId
    from culm_topics.p2panda.documents.consumer import DocumentConsumer
    from culm_topics.p2panda.documents.selection import DocumentSelection

PeerDirectory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="The folder of the key and the data of a peer, which is read instead of Kafka.",
    ),
]


class DocumentSource(Protocol):
    """The documents that a command reads."""

    def selected(self) -> Iterator[TypedDocument]:
        """Yield the selected documents."""
        ...

    def document(self, document_id: DocumentId) -> TypedDocument | None:
        """Return a document with all of its values; None if it is not here."""
        ...

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return a document at these heads. Raises an error that says what is not here."""
        ...

    def blob(self, document: TypedDocument) -> Iterator[bytes]:
        """Return the bytes of a blob, piece after piece."""
        ...

    def command(self, line: str) -> str:
        """Return a command line for the same documents."""
        ...

    def report(self, results: Results) -> None:
        """Report what was skipped."""
        ...


@contextlib.contextmanager
def open_documents(
    context: typer.Context,
    kafka: KafkaFlags,
    directory: Path | None,
    schemas: Iterable[str] | None = None,
    owners: Iterable[bytes] | None = None,
) -> Iterator[DocumentSource]:
    """Open a peer's folder if one is named, else read the topic of a deployment to its present end.

    `schemas` and `owners` select documents, as in `DocumentConsumer`. Raises `typer.BadParameter` for flags
    of Kafka beside a folder.
    """
    if directory is None:
        from culm_topics.p2panda.documents.consumer import DocumentConsumer

        with DocumentConsumer(kafka.settings(), schemas=schemas, owners=owners) as consumer:
            with counting("reading the documents"):
                consumer.load()
            yield DeploymentDocuments(consumer, kafka)
        return
    from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
    from culm_topics.p2panda.documents.selection import DocumentSelection

    refuse(
        context,
        {*KAFKA_FLAGS, "stack", "timeout_s"},
        "is about a deployment, and --dir about a peer's folder",
    )
    peer_id_of(directory)  # a folder without a key is no peer's, and is not created
    with store(directory) as store_opened:
        selection = DocumentSelection.of(schemas, owners)
        yield PeerDocuments(StoredDocuments(store_opened), selection, directory)


@dataclass(frozen=True, slots=True)
class DeploymentDocuments:
    """The documents of a deployment."""

    consumer: DocumentConsumer
    kafka: KafkaFlags

    def selected(self) -> Iterator[TypedDocument]:
        """Yield the selected documents; values that are only in `logs` are not read."""
        return self.consumer.documents()

    def document(self, document_id: DocumentId) -> TypedDocument | None:
        """Return a document with all of its values; None if the topic does not have it."""
        return self.consumer.document(document_id)

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return a document at these heads, by a scan of `logs` if need be."""
        with counting("reading the operations of the view"):
            return self.consumer.view_at(view_id)

    def blob(self, document: TypedDocument) -> Iterator[bytes]:
        """Return the bytes of a blob, piece after piece."""
        return self.consumer.blob(document.view.document_id)

    def command(self, line: str) -> str:
        """Return a command line for the same cluster."""
        return self.kafka.command(line)

    def report(self, results: Results) -> None:
        """Report malformed records of the topic."""
        results.passed_over(self.consumer.passed_over)


@dataclass(frozen=True, slots=True)
class PeerDocuments:
    """The documents of a peer's folder, reduced when they are read."""

    stored: StoredDocuments
    selection: DocumentSelection
    directory: Path

    def selected(self) -> Iterator[TypedDocument]:
        """Yield the selected documents."""
        ids = list(self.stored.ids(self.selection.takes_schema))
        with counting("reducing documents", len(ids)) as count:
            for document_id in ids:
                document = self.stored.document(document_id)
                count(advance=1)
                if document is None:
                    continue
                if self.selection.takes(document_id, document.view.schema_id, document.view.owner):
                    yield document

    def document(self, document_id: DocumentId) -> TypedDocument | None:
        """Return a document; None if its create is not held."""
        return self.stored.document(document_id)

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return a document at these heads. Raises `InfraError` if not all operations are held."""
        view = self.stored.view(view_id)
        if view is None:
            raise InfraError(
                "not all operations of this view are stored here",
                hint=f"{self.command('`culm p2panda peer sync HOST:PORT')}` brings those that the other has",
            )
        return view

    def blob(self, document: TypedDocument) -> Iterator[bytes]:
        """Return the bytes of a blob, piece after piece."""
        from culm_models.p2panda.documents.blobs import read_blob

        return read_blob(document.view, self.stored.view)

    def command(self, line: str) -> str:
        """Return a command line for the same folder."""
        return with_folder(line, self.directory)

    def report(self, results: Results) -> None:
        """Report nothing: a store holds only what it has checked."""
