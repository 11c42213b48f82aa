"""The topics of notes: what edges took, and what the job has numbered."""

from __future__ import annotations

from typing import Annotated, Final

from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import sized_between
from culm_topics.topic_spec import JobSpec, TopicSpec, kept, kept_for
from tests.streaming.sixth_protocol.wire import MAX_NOTE_BYTES

Text = Annotated[str, sized_between(0, MAX_NOTE_BYTES), "the note"]


@record("notes.said", "a note as an edge took it. Key: the public key of who said it.")
class NoteRecord(Record):
    """Value of `notes.said`."""

    text: Text


@record("notes.numbered", "a note with its number. Key: the public key of who said it.")
class NumberedNoteRecord(Record):
    """Value of `notes.numbered`."""

    number: Annotated[int, "in the order of `notes.said`, from 0"]
    text: Text


def _topic(record: type[Record], doc: str, **about: object) -> TopicSpec:
    name = record.declaration.topic
    records = (f"{record.__module__}:{record.__name__}",)
    return TopicSpec(name, "public key", 1, False, records=records, doc=doc, **about)  # type: ignore[arg-type]


NOTES: Final = (
    _topic(
        NoteRecord, "notes as edges took them", cleanup="time", config=kept_for(days=7),
        writers=("connector",), readers=(),
    ),
    _topic(
        NumberedNoteRecord, "notes in one order", cleanup="keep", config=kept(),
        readers=("connector", "operator"),
    ),
)  # fmt: skip
NOTES_JOBS: Final = (
    JobSpec(
        "notes",
        reads=("notes.said",),
        writes=("notes.numbered", "rejected"),
        load="tests.streaming.sixth_protocol.job:JOB",
        doc="numbers notes",
        group="notes",
        stateful=False,
    ),
)
