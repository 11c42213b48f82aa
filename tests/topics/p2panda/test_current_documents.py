"""Documents as records have them: versions, types, problems and selections, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.documents.typed import SCHEMA_PROBLEM
from culm_models.p2panda.operations.identifiers import OperationId
from culm_models.p2panda.operations.operation import decode_operation
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord
from culm_topics.p2panda.documents.current import CurrentDocument, CurrentDocuments
from culm_topics.p2panda.documents.document_file import AppliedDocument, DocumentFile, read_record
from culm_topics.p2panda.documents.errors import DocumentsFileFailed, ValueUnread
from culm_topics.p2panda.documents.log_operations import LogOperations
from culm_topics.p2panda.documents.record import DocumentProblem, DocumentRecord
from culm_topics.p2panda.documents.selection import DocumentSelection
from culm_topics.readers.batch import TopicMessage
from tests.support.p2panda.document_records import ANN, BEN, MAX_VALUE_BYTES, DocumentStory, Written, id_of

NOWHERE = KafkaSettings(bootstrap="127.0.0.1:1")
VENUE = f"venue_{id_of('a definition that nobody has').hex()}"


class Topic:
    """A file, and records that are applied to it one after another."""

    def __init__(self, folder: Path | None = None) -> None:
        self.file = DocumentFile(folder)
        self.documents = CurrentDocuments(self.file, LogOperations(NOWHERE, self.file.operations))
        self._end = 0

    def apply(self, records: Iterable[Written]) -> list[AppliedDocument]:
        read = []
        for partition, key, value in records:
            read.append(read_record(TopicMessage(key, value or b"", partition, self._end, 0)))
            self._end += 1
        applied = self.file.apply(read, {0: self._end, 1: self._end})
        self.documents.typing.forget_unknown()
        return applied

    def __getitem__(self, document_id: bytes) -> CurrentDocument:
        document = self.documents.document(document_id)
        assert document is not None
        return document

    def codes(self, document_id: bytes) -> dict[str, str]:
        return {name: problem.code for name, problem in self[document_id].problems.items()}


@pytest.fixture
def topic() -> Iterator[Topic]:
    topic = Topic()
    yield topic
    topic.file.close()


def test_a_document_has_the_fields_of_its_record(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, name="The Reed", seats=40)
    (change,) = topic.apply(story.records())
    assert change == AppliedDocument(created, VENUE, ANN, ("name", "seats"), is_new=True)
    updated = story.update(created, BEN, seats=41)
    (change,) = topic.apply(story.records())
    assert change == AppliedDocument(created, VENUE, ANN, ("seats",))
    document = topic[created]
    assert (document["name"], document["seats"]) == ("The Reed", 41)
    assert document.view.view_id == (updated,) and document.operations == 2
    assert document.types is None and not document.problems
    with pytest.raises(KeyError):
        document["colour"]


def test_a_record_of_a_lower_version_is_ignored_and_one_of_the_same_counts(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=40)
    old = story.records()
    story.update(created, seats=41)
    new = story.records()
    topic.apply(new)
    assert topic.apply(old) == [] and topic.apply(new) == []
    assert topic[created]["seats"] == 41
    waiting = replace(story.record(created), waiting=1, missing=(id_of("lost"),))
    (change,) = topic.apply([(0, created, waiting.encode())])
    assert change.fields == ()
    assert (topic[created].waiting, topic[created].missing) == (1, (id_of("lost"),))


def test_changes_of_one_batch_are_combined(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=40, name="x")
    topic.apply(story.records())
    batch, latest = [], created
    for number in range(3):
        latest = story.update(latest, seats=number)
        batch += story.records()
    (change,) = topic.apply(batch)
    assert change.fields == ("seats",) and not change.is_new
    short_lived = story.create(VENUE, seats=1)
    key = story.records([short_lived])[0]
    assert topic.apply([key, (key[0], short_lived, None)]) == []


def test_a_tombstone_of_the_topic_drops_the_document(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=40)
    topic.apply(story.records())
    (change,) = topic.apply([(0, created, None)])
    assert change == AppliedDocument(created, VENUE, ANN, (), is_gone=True)
    assert topic.documents.document(created) is None
    assert topic.apply([(0, created, None)]) == []


def test_a_deleted_document_stays_without_fields(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=40)
    topic.apply(story.records())
    story.update(created)
    (change,) = topic.apply(story.records())
    assert change.fields == ("seats",)
    assert topic[created].is_deleted and topic[created].view.fields is None


def test_a_schema_that_arrives_late_types_its_documents_without_new_records(topic: Topic) -> None:
    story = DocumentStory()
    schema, definition = story.define("venue", {"seats": "int", "name": "str"})
    created = story.create(schema, seats="many", colour=1)
    topic.apply(story.records([created]))
    assert topic[created].types is None and not topic[created].problems
    topic.apply(story.records(definition[:-1]))
    assert topic[created].types is None
    topic.apply(story.records(definition[-1:]))
    assert topic[created].types == {"seats": "int", "name": "str"}
    assert topic.codes(created) == {
        "seats": "p2panda.document.field_type",
        "colour": "p2panda.document.field_unknown",
        "name": "p2panda.document.field_missing",
    }


def test_relations_to_documents_that_are_not_here_are_problems_until_these_arrive(topic: Topic) -> None:
    story = DocumentStory()
    schema, definition = story.define(
        "venue", {"owner": "relation(blob_v1)", "also": "relation_list(blob_v1)"}
    )
    blob = story.create("blob_v1", length=0, mime_type="text/plain", pieces=())
    created = story.create(schema, owner=blob, also=(blob, id_of("nobody")))
    topic.apply(story.records([*definition, created]))
    assert topic.codes(created) == dict.fromkeys(("owner", "also"), "p2panda.document.relation_missing")
    assert str(topic[created].problems["owner"]).endswith(blob.hex())
    topic.apply(story.records([blob]))
    assert topic.codes(created) == {"also": "p2panda.document.relation_missing"}


def test_a_pinned_relation_to_an_unknown_view_is_unchecked(topic: Topic) -> None:
    """The view may be in the past: then `logs` has it, and no record of a document does."""
    story = DocumentStory()
    piece = story.create("blob_piece_v1", data=b"x")
    between = story.update(piece, data=b"y")
    blob = story.create("blob_v1", length=1, mime_type="text/plain", pieces=((piece,), (between,)))
    topic.apply(story.records())
    assert topic[blob].unchecked == () and not topic[blob].problems
    story.update(between, data=b"z")
    other = Topic()
    other.apply(story.records())
    assert other[blob].unchecked == ("pieces",) and not other[blob].problems
    other.file.close()


def test_a_schema_of_another_name_is_a_problem_of_its_document_alone(topic: Topic) -> None:
    story = DocumentStory()
    schema, _ = story.define("venue", {"seats": "int"})
    created = story.create(schema.replace("venue", "house"), seats=1)
    good = story.create(schema, seats=1)
    topic.apply(story.records())
    assert topic.codes(created) == {SCHEMA_PROBLEM: "p2panda.operation.schema"}
    assert topic.codes(good) == {} and topic[good].types == {"seats": "int"}


def test_a_value_that_is_only_in_logs_is_unread_and_not_missing(topic: Topic) -> None:
    story = DocumentStory()
    schema, _ = story.define("venue", {"name": "str", "text": "str"})
    created = story.create(schema, name="x", text="y" * MAX_VALUE_BYTES, more="z" * MAX_VALUE_BYTES)
    topic.apply(story.records())
    document = topic[created]
    assert document.unread.keys() == {"text", "more"} and document.unchecked == ("text",)
    assert topic.codes(created) == {"more": "p2panda.document.field_unknown"}
    with pytest.raises(ValueUnread) as raised:
        document["text"]
    assert raised.value.code == "topics.documents.value_unread"


def test_refused_operations_have_the_codes_of_the_record(topic: Topic) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=1)
    refused = DocumentProblem(id_of("second create"), "p2panda.document.create")
    topic.apply([(0, created, replace(story.record(created), problems=(refused,)).encode())])
    assert topic[created].refused == {id_of("second create"): "p2panda.document.create"}


def test_documents_are_selected_by_schema_owner_and_id(topic: Topic) -> None:
    story = DocumentStory()
    other_venue = f"venue_{id_of('another').hex()}"
    first = story.create(VENUE, seats=1)
    second = story.create(other_venue, BEN, seats=1)
    third = story.create("blob_piece_v1", BEN, data=b"")
    topic.apply(story.records())

    def selected(**filters: list[str] | list[bytes]) -> set[bytes]:
        selection = DocumentSelection.of(**filters)  # type: ignore[arg-type]
        return {document.id for document in topic.documents.documents(selection)}

    assert selected() == {first, second, third}
    assert selected(schemas=["venue"]) == {first, second}
    assert selected(schemas=[VENUE, "blob_piece"]) == {first, third}
    assert selected(owners=[BEN]) == {second, third}
    assert selected(owners=[BEN], schemas=["venue"], document_ids=[first, second]) == {second}
    assert selected(schemas=[]) == set()
    for wrong in ({"owners": [b"short"]}, {"document_ids": [b"short"]}):
        with pytest.raises(RecordError):
            DocumentSelection.of(**wrong)  # type: ignore[arg-type]


def test_documents_are_listed_in_order_while_others_change(topic: Topic) -> None:
    story = DocumentStory()
    ids = sorted(story.create(VENUE, seats=number) for number in range(1_500))
    topic.apply(story.records())
    listed = topic.documents.documents(DocumentSelection())
    first = next(listed)
    topic.apply([(0, ids[0], None), (0, ids[-1], None)])
    assert [first.id, *(document.id for document in listed)] == ids[:-1]


def record() -> DocumentRecord:
    story = DocumentStory()
    return story.record(story.create(VENUE, seats=1))


HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "no key": (b"", record().encode()),
    "a short key": (b"\x00\x20", record().encode()),
    "no id": (b"\xff" * 34, record().encode()),
    "no record": (id_of("x"), b"\xff"),
    "a schema that is none": (id_of("x"), replace(record(), schema_id="no schema").encode()),
    "a value that is none": (
        id_of("x"),
        replace(record(), fields=(record().fields[0]._replace(value=b"\xf6"),)).encode(),
    ),
    "a place beyond numbers": (
        id_of("x"),
        replace(record(), fields=(record().fields[0]._replace(offset=2**63),)).encode(),
    ),
    "a version beyond numbers": (id_of("x"), replace(record(), version=2**63).encode()),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_malformed_record_is_refused_as_such(name: str) -> None:
    key, value = HOSTILE[name]
    with pytest.raises(RecordError):
        read_record(TopicMessage(key, value, 0, 0, 0))


def test_a_definition_that_refers_to_itself_ends(topic: Topic) -> None:
    story = DocumentStory()
    definition = story.create("schema_definition_v1", name="venue", description="", fields=())
    own = f"venue_{definition.hex()}"
    story.update(definition, fields=((definition,),))
    created = story.create(own, seats=1)
    record_ = replace(story.record(definition), view_id=(definition,))
    topic.apply([(0, definition, record_.encode()), *story.records([created])])
    assert topic[created].types is None


class CountedReads(LogOperations):
    """Reads operations in the story's `logs`; `reads` counts the requests."""

    def __init__(self, story: DocumentStory, file: DocumentFile) -> None:
        super().__init__(NOWHERE, file.operations)
        self.story = story
        self.reads = 0

    def _read(
        self, places: Mapping[OperationId, tuple[int, int]], max_bytes: int
    ) -> tuple[dict[OperationId, AuthoredOperation], dict[OperationId, str]]:
        self.reads += 1
        authored: dict[OperationId, AuthoredOperation] = {}
        for _, key, value in self.story.logs:
            record = LogRecord.decode(value or b"")
            if record.entry_hash in places:
                operation = decode_operation(record.operation)
                authored[record.entry_hash] = AuthoredOperation(record.entry_hash, key[:32], operation)
        return authored, {}


def test_definitions_that_anybody_may_name_are_read_from_logs_once(topic: Topic) -> None:
    story = DocumentStory()
    operations = CountedReads(story, topic.file)
    topic.documents = CurrentDocuments(topic.file, operations)
    earlier = [
        story.create("schema_field_definition_v1", name=f"f{number}", type="int") for number in range(5)
    ]
    for field in earlier:
        story.update(field, type="str", more="x" * (MAX_VALUE_BYTES + 1))
    lacking = id_of("a field that nobody has defined")
    views = tuple((field,) for field in (*earlier, lacking))
    definition = story.create("schema_definition_v1", name="venue", description="", fields=views)
    document = story.create(f"venue_{definition.hex()}", f1=2)
    topic.apply(story.records())
    assert topic[document].types is None
    assert operations.reads <= 10
    operations.reads = 0
    topic.apply(story.records([definition]))
    assert topic[document].types is None
    assert operations.reads == 0


def test_long_values_of_a_definition_that_define_nothing_are_not_read(topic: Topic) -> None:
    story = DocumentStory()
    operations = CountedReads(story, topic.file)
    topic.documents = CurrentDocuments(topic.file, operations)
    long = "x" * (MAX_VALUE_BYTES + 1)
    field = story.create("schema_field_definition_v1", name="seats", type="int", more=long)
    definition = story.create("schema_definition_v1", name="venue", description=long, fields=((field,),))
    document = story.create(f"venue_{definition.hex()}", seats=2)
    topic.apply(story.records())
    assert topic[document].types == {"seats": "int"}
    assert operations.reads == 0


def test_a_definition_of_many_fields_is_read_from_logs(topic: Topic) -> None:
    story = DocumentStory()
    operations = CountedReads(story, topic.file)
    topic.documents = CurrentDocuments(topic.file, operations)
    schema, _ = story.define("venue", {f"f{number}": "int" for number in range(60)})
    document = story.create(schema, f1=2)
    topic.apply(story.records())
    assert len(topic[document].types or ()) == 60
    assert operations.reads == 1


def test_a_file_is_gone_on_with_and_belongs_to_one_program(tmp_path: Path) -> None:
    story = DocumentStory()
    created = story.create(VENUE, seats=1)
    topic = Topic(tmp_path)
    topic.apply(story.records())
    with pytest.raises(DocumentsFileFailed) as raised:
        DocumentFile(tmp_path)
    assert raised.value.code == "topics.documents.file"
    topic.file.close()
    topic = Topic(tmp_path)
    assert topic[created]["seats"] == 1 and topic.file.positions() == {0: 1, 1: 1}
    topic.file.close()
    file = DocumentFile(tmp_path, b"another topic")
    assert file.positions() == {} and not file.has(created)
    file.close()
