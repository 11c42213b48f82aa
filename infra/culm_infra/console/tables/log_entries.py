"""The newest entries of one log, for details: read backwards from the end of its partition of `logs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from culm_infra.console.tables import DetailSection
from culm_infra.console.tables.paging import columns
from culm_infra.console.tables.scan import RunningScan, newest
from culm_models.errors import CulmError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord
from culm_topics.readers.batch import TopicMessage
from culm_topics.records import key_partition

ActionOf = Callable[[LogRecord], str | None]
_SHOWN: Final = 20
_COLUMNS: Final = columns(
    "seq_num count Number",
    "time time Stored",
    "action text Action",
    "schema text Schema",
    "entry bytes Entry",
    "payload bytes Payload",
    "hash id Hash",
    "offset text Offset",
)


def entries_section(
    scan: RunningScan, kafka: KafkaSettings, log: bytes, action_of: ActionOf = lambda record: None
) -> DetailSection:
    """Return the newest entries of a log by its key; `action_of` names what an entry does.

    Raises `KafkaFailure`.
    """
    excerpt = newest(scan, kafka, "logs", lambda count: key_partition(log, count), log, _SHOWN)
    return DetailSection(
        "Newest entries", _COLUMNS, [_row(message, action_of) for message in excerpt.messages], excerpt.note
    )


def _row(message: TopicMessage, action_of: ActionOf) -> list[Any]:
    place = f"{message.partition}:{message.offset}"
    try:
        record = LogRecord.decode(message.value)
    except CulmError as error:
        return [None, message.timestamp_ms, f"malformed: {error}", None, None, None, None, place]
    return [
        record.seq_num,
        message.timestamp_ms,
        action_of(record),
        record.schema_id or None,
        len(record.entry),
        len(record.operation),
        record.entry_hash.hex(),
        place,
    ]
