"""`culm notes`: what was noted."""

from __future__ import annotations

from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results
from culm_topics.readers.partitions import read_to_end
from tests.streaming.sixth_protocol.topics import NumberedNoteRecord


def list_notes(kafka: KafkaFlags = KafkaFlags(), results: Results = Results()) -> None:  # noqa: B008
    """List all notes in their order."""
    notes = [
        NumberedNoteRecord.decode(message.value)
        for message in read_to_end(kafka.settings(), "notes.numbered")
    ]
    results.rows(({"number": note.number, "text": note.text} for note in notes), ("number", "text"))


app = noun("Notes that anybody may add to.", {"list": list_notes})
