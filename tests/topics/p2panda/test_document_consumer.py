"""`DocumentConsumer` on the real broker: documents, their changes, and what is only in `logs`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from culm_models.p2panda.documents.errors import (
    BlobIncompleteError,
    BlobLengthError,
    NotABlobError,
    UnknownViewError,
)
from culm_models.p2panda.operations.identifiers import DocumentViewIdError
from culm_topics.errors import KafkaFailure, OriginChanged, RecordError
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.p2panda.documents.consumer import DocumentChange, DocumentConsumer
from culm_topics.p2panda.documents.current import CurrentDocument, CurrentDocuments
from culm_topics.p2panda.documents.document_file import AppliedDocument, DocumentFile, ReadRecord
from culm_topics.p2panda.documents.errors import (
    DocumentsFileFailed,
    DocumentUnknown,
    ScanLimitReached,
    StartByTimeRefused,
    ValueMissing,
    ViewTooLarge,
)
from tests.support.p2panda.document_records import ANN, BEN, MAX_VALUE_BYTES, DocumentStory, Written, id_of

pytestmark = pytest.mark.kafka

VENUE = f"venue_{id_of('a definition that nobody has').hex()}"
LONG = "reed " * MAX_VALUE_BYTES


class Deployment:
    """A story on Kafka."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.story = DocumentStory()
        # One client for all: each asks anew where topics are.
        self._producer = clients.producer(settings)
        self._written = 0

    def write(self, *document_ids: bytes) -> None:
        """Write what is new of `logs`, and the records of these documents, or of all."""
        records = {
            "logs": self.story.logs[self._written :],
            "documents": self.story.records(document_ids or None),
        }
        self._written = len(self.story.logs)
        self.write_to(**records)

    def write_to(self, **records: list[Written]) -> None:
        """Write records by topic, each in order."""
        for topic, written in records.items():
            for partition, key, value in written:
                self._producer.produce(self.settings.topic(topic), value, key, partition)
                self._producer.poll(0)
        assert self._producer.flush(30) == 0


@pytest.fixture
def deployment(kafka: KafkaSettings) -> Deployment:
    return Deployment(kafka)


def of(changes: list[DocumentChange]) -> dict[bytes, tuple[tuple[str, ...], bool]]:
    return {change.document_id: (change.fields, change.is_new) for change in changes}


def test_documents_come_first_and_then_their_changes(deployment: Deployment) -> None:
    story = deployment.story
    first, second = story.create(VENUE, seats=1), story.create("blob_piece_v1", BEN, data=b"")
    deployment.write()
    deployment.write_to(documents=[(0, id_of("x"), b"\xff"), (1, b"\x00", b"")])
    with DocumentConsumer(deployment.settings) as consumer:
        changes = [consumer.poll(10), consumer.poll(10)]
        assert of([change for change in changes if change is not None]) == {
            first: (("seats",), True),
            second: (("data",), True),
        }
        assert consumer.poll(0) is None and not consumer.finished
        assert (consumer.bad_records, consumer.passed_over.topic) == (2, "documents")
        story.update(first, seats=2)
        third = story.create(VENUE, seats=3)
        deployment.write(first, third)
        deployment.write_to(documents=[(0, second, None), (1, second, None)])
        later = [consumer.poll(10) for _ in range(3)]
        assert of([change for change in later if change is not None]) == {
            first: (("seats",), False),
            third: (("seats",), True),
            second: ((), False),
        }
        assert {change.document_id for change in later if change and change.document is None} == {second}
        assert consumer.document(second) is None
    with (
        pytest.raises(RecordError),
        DocumentConsumer(deployment.settings, strict=True, stop_at_end=True) as consumer,
    ):
        list(consumer)


def test_a_program_goes_on_from_its_positions_and_its_file(deployment: Deployment, tmp_path: Path) -> None:
    story = deployment.story
    ids = [story.create(VENUE, seats=number) for number in range(20)]
    deployment.write()
    with DocumentConsumer(deployment.settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        assert consumer.positions() == {}
        assert set(of(list(consumer))) == set(ids)
        since, origin = consumer.positions(), consumer.origin
        assert consumer.remaining_records() == 0 and sum(since.values()) == 20
    story.update(ids[3], seats=99)
    deployment.write(ids[3])
    with DocumentConsumer(
        deployment.settings, state_dir=tmp_path, since=since, origin=origin, stop_at_end=True
    ) as consumer:
        assert consumer.remaining_records() == 1, "only what is new is read"
        (change,) = consumer
        assert change.document is not None and change.document["seats"] == 99
        assert len(list(consumer.documents())) == 20
    with pytest.raises(OriginChanged):
        DocumentConsumer(deployment.settings, origin=Origin("elsewhere", {}))


def test_a_change_whose_lookup_fails_is_handed_out_when_it_succeeds(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = deployment.story
    ids = sorted(story.create(VENUE, name=str(number)) for number in range(5))
    deployment.write()
    fails: set[bytes] = set()

    def document(current: CurrentDocuments, document_id: bytes) -> CurrentDocument | None:
        if document_id in fails:
            fails.remove(document_id)
            raise KafkaFailure("the broker is away")
        return read(current, document_id)

    read = CurrentDocuments.document
    monkeypatch.setattr(CurrentDocuments, "document", document)
    with DocumentConsumer(deployment.settings, stop_at_end=True) as consumer:
        fails.add(ids[2])
        assert [change.document_id for change in _through_failures(consumer)] == ids
        assert not fails
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()
        before = consumer.positions()
        for document_id in ids:
            story.update(document_id, name="new")
        fails.update(ids[1:3])
        deployment.write(*ids)
        changes = itertools.islice(_through_failures(consumer), 5)
        assert consumer.positions() == before
        assert sorted(change.document_id for change in changes) == ids
        assert not fails
        assert sum(consumer.positions().values()) == sum(before.values()) + 5


def test_records_that_the_file_cannot_take_are_read_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = deployment.story
    ids = sorted(story.create(VENUE, name=str(number)) for number in range(5))
    deployment.write()
    apply, failures = DocumentFile.apply, ["while the topic is read", "while it is followed"]

    def full(
        file: DocumentFile, records: Iterable[ReadRecord], positions: Mapping[int, int]
    ) -> list[AppliedDocument]:
        if failures:
            raise DocumentsFileFailed(failures.pop())
        return apply(file, records, positions)

    monkeypatch.setattr(DocumentFile, "apply", full)
    with DocumentConsumer(deployment.settings) as consumer:
        changes = _through_failures(consumer)
        assert [change.document_id for change in itertools.islice(changes, 5)] == ids
        failures.append("later")
        story.update(ids[0], name="new")
        deployment.write(ids[0])
        assert next(changes).fields == ("name",)
        assert not failures


def _through_failures(consumer: DocumentConsumer) -> Iterator[DocumentChange]:
    """Yield what a consumer hands out to a program that goes on after each failure."""
    while not consumer.finished:
        try:
            yield from consumer
        except (KafkaFailure, DocumentsFileFailed):
            continue


def test_a_start_by_time_is_refused_with_the_reason(deployment: Deployment) -> None:
    for moment in (datetime(2026, 11, 27, tzinfo=UTC), 1_800_000_000.0, 0):
        with pytest.raises(StartByTimeRefused, match="present state") as raised:
            DocumentConsumer(deployment.settings, since=moment)
        assert raised.value.code == "topics.documents.start_by_time"
        assert raised.value.hint is not None and "positions()" in raised.value.hint


def test_changes_come_in_an_event_loop_for_the_selected_documents(deployment: Deployment) -> None:
    story = deployment.story
    old, other = story.create(VENUE, seats=1), story.create("blob_piece_v1", data=b"")
    deployment.write()

    async def listen() -> list[DocumentChange]:
        async with DocumentConsumer(deployment.settings, schemas=["venue"], owners=[ANN]) as consumer:
            await consumer.load_async()
            assert [document.id for document in consumer.documents()] == [old]
            assert consumer.document(other) is not None, "a selection does not restrict lookups"
            story.update(other, data=b"x")
            story.create(VENUE, BEN, seats=1)
            story.update(old, seats=2)
            await asyncio.to_thread(deployment.write)
            changes: list[DocumentChange] = []
            async for change in consumer:
                changes.append(change)
                consumer.stop()
            return changes

    (change,) = asyncio.run(listen())
    assert (change.document_id, change.fields, change.is_new) == (old, ("seats",), False)


def test_values_that_are_only_in_logs_are_read_from_their_places(deployment: Deployment) -> None:
    story = deployment.story
    schema, _ = story.define("venue", {"name": "str", "text": "str", "seats": "int"})
    created = story.create(schema, name="x", text=LONG, seats=LONG)
    story.update(created, BEN, name=LONG)
    lost = story.create(VENUE, text=LONG)
    wrong = story.create(VENUE, text=LONG)
    story.places[lost] = 1, 999
    story.places[wrong] = story.places[created]
    deployment.write()
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()
        (document,) = (document for document in consumer.documents() if document.id == created)
        assert document.unread.keys() == {"name", "text", "seats"} == set(document.unchecked)
        assert consumer.value(document.unread["text"]) == LONG
        whole = consumer.complete(document)
        again = consumer.document(created)
        assert again is not None and again.view == whole.view and whole["name"] == LONG
        assert not whole.unread and not whole.unchecked
        assert {name: each.code for name, each in whole.problems.items()} == {
            "seats": "p2panda.document.field_type"
        }
        for missing, reason in ((lost, "partition ends at"), (wrong, "another record")):
            with pytest.raises(ValueMissing, match=reason) as raised:
                consumer.document(missing)
            assert raised.value.code == "topics.documents.value_missing"


def test_a_view_in_the_past_is_computed_from_logs(deployment: Deployment) -> None:
    story = deployment.story
    created = story.create(VENUE, name="x", seats=1)
    left, right = story.update(created, seats=2), story.update(created, BEN, seats=3)
    merged = story.update((left, right), name="y", seats=4)
    latest = story.update(merged, name="z", seats=5)
    gone = story.update(latest)
    deployment.write()
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()

        def at(*heads: bytes) -> dict[str, object]:
            view = consumer.view_at(tuple(sorted(heads)))
            assert view.document_id == created
            return {name: field.value for name, field in (view.fields or {}).items()}

        assert at(created) == {"name": "x", "seats": 1}
        assert at(left) == {"name": "x", "seats": 2}
        assert at(left, right) == {"name": "x", "seats": 3 if left < right else 2}
        assert at(merged) == {"name": "y", "seats": 4}
        assert consumer.view_at((gone,)).fields is None
        with pytest.raises(UnknownViewError, match=id_of("nowhere").hex()):
            consumer.view_at((id_of("nowhere"),))
        with pytest.raises(UnknownViewError, match="not one document"):
            other = story.create(VENUE, seats=1)
            deployment.write()
            consumer.view_at(tuple(sorted((other, left))))
        with pytest.raises(DocumentViewIdError):
            consumer.view_at(())


def test_a_view_whose_operations_still_set_fields_needs_no_scan(deployment: Deployment) -> None:
    story = deployment.story
    created = story.create(VENUE, name="x", seats=1)
    middle = story.update(created, seats=2)
    story.update(middle, colour=1)
    deployment.write()
    with DocumentConsumer(deployment.settings, max_scan_records=0) as consumer:
        consumer.load()
        view = consumer.view_at((middle,))
        assert {name: field.value for name, field in (view.fields or {}).items()} == {"name": "x", "seats": 2}


def test_a_scan_is_limited_goes_on_and_is_remembered(deployment: Deployment, tmp_path: Path) -> None:
    story = deployment.story
    created = story.create(VENUE, seats=0)
    heads = [created]
    for number in range(1, 2_500):
        heads.append(story.update(heads[-1], seats=number))
    deployment.write()
    limits = 0
    with DocumentConsumer(deployment.settings, state_dir=tmp_path, max_scan_records=500) as consumer:
        consumer.load()
        while limits < 100:
            try:
                view = consumer.view_at((heads[-2],))
                break
            except ScanLimitReached as error:
                assert error.code == "topics.documents.scan_limit"
                limits += 1
        assert limits > 0 and (view.fields or {})["seats"].value == 2_498
    with DocumentConsumer(deployment.settings, state_dir=tmp_path, max_scan_records=0) as consumer:
        view = consumer.view_at((heads[1_000],))
        assert (view.fields or {})["seats"].value == 1_000


def test_a_view_of_too_many_operations_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("culm_topics.p2panda.documents.log_operations.MAX_OPERATIONS", 2)
    monkeypatch.setattr("culm_topics.p2panda.documents.log_operations.MAX_BYTES", 500)
    story = deployment.story
    created = story.create(VENUE, text=LONG)
    heads = [created]
    for number in range(3):
        heads.append(story.update(heads[-1], seats=number))
    deployment.write()
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()
        for many in (lambda: consumer.view_at((heads[2],)), lambda: consumer.document(created)):
            with pytest.raises(ViewTooLarge) as raised:
                many()
            assert raised.value.code == "topics.documents.view_size"


def test_a_definition_in_the_past_types_documents_once_its_operations_are_known(
    deployment: Deployment,
) -> None:
    story = deployment.story
    schema, (field, definition) = story.define("venue", {"seats": "int"})
    story.update(story.update(definition, name="house"), name="home")
    later = story.update(field, type="str")
    second = story.create("schema_definition_v1", name="venue", description="", fields=((later,),))
    story.update(later, type="float")
    unclear = story.create(f"venue_{second.hex()}", seats="x")
    deployment.write()
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()
        assert consumer.fields_of(schema) == {"seats": "int"}, "its operations still set fields"
        document = consumer.document(unclear)
        assert document is not None and document.types is None
        consumer.view_at((later,))
        document = consumer.document(unclear)
        assert document is not None and document.types == {"seats": "str"} and not document.problems


def test_a_blob_is_read_in_pieces_and_says_what_is_missing(deployment: Deployment) -> None:
    story = deployment.story
    pieces = [story.create("blob_piece_v1", data=data) for data in (b"x" * MAX_VALUE_BYTES, b"yz")]

    def blob(length: int, *ids: bytes) -> bytes:
        return story.create(
            "blob_v1", length=length, mime_type="text/plain", pieces=tuple((piece,) for piece in ids)
        )

    whole = blob(MAX_VALUE_BYTES + 2, *pieces)
    lacking = blob(MAX_VALUE_BYTES + 2, pieces[0], id_of("lost"))
    long = blob(1, *pieces)
    deployment.write()
    with DocumentConsumer(deployment.settings) as consumer:
        consumer.load()
        assert b"".join(consumer.blob(whole)) == b"x" * MAX_VALUE_BYTES + b"yz"
        received = consumer.blob(lacking)
        assert next(received) == b"x" * MAX_VALUE_BYTES
        with pytest.raises(BlobIncompleteError, match="piece 2 of 2"):
            next(received)
        with pytest.raises(BlobLengthError):
            list(consumer.blob(long))
        with pytest.raises(NotABlobError):
            consumer.blob(pieces[0])
        with pytest.raises(DocumentUnknown) as raised:
            consumer.blob(id_of("nobody"))
        assert raised.value.code == "topics.documents.unknown"
