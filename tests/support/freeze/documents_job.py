"""The checkpoint of the job `documents`.

In the checkpoint wait logs whose first operation follows one that comes later, and operations of known
documents. One document fills several pages and lies beside its block.
"""

from __future__ import annotations

from culm_streaming.p2panda_documents.job import DocumentsSettings
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key
from tests.support.freeze.job_checkpoint import JobCheckpoint
from tests.support.kafka.topic_io import produce
from tests.support.p2panda.document_histories import history
from tests.support.p2panda.documents_job import histories, in_logs, written

Records = list[tuple[bytes, bytes]]
"""Keys and values of records of `logs`."""


def inputs() -> tuple[Records, Records]:
    """What comes first, and what comes later: the logs with the creates of four documents, and the newest."""
    documents = [*histories(8, 20), history(99, 1_200, late=0.1, deletes=0.01)]
    held = {log_key(made[0].author, number) for number, made in enumerate(documents[:4])}
    records = in_logs(documents, seed=5)
    now = [record for record in records[:-200] if record[0] not in held]
    return now, [record for record in records[:-200] if record[0] in held] + records[-200:]


def write(kafka: KafkaSettings, records: Records) -> None:
    """Write records of `logs`."""
    produce(kafka, "logs", records)


CHECKPOINT = JobCheckpoint(
    "documents", DocumentsSettings(400, DocumentsLayout(shards=3, blocks=2)), inputs, write, written
)
