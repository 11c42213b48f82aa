"""`entries`: an entry as a connector received it, with who brought it and for which session.

Of a bare log, whose payloads are no operations, `schema_id` is empty and `operation` is the payload, or empty
where that is not inline.
"""

from dataclasses import dataclass

from culm_topics.records.keys import PEER_ID_SIZE
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    dump,
    head_size,
    is_uint,
    load_array,
    refuse_item,
    require,
    string_size,
    text_size,
)

CONNECTOR_ID_SIZES = range(8, 33)
_FIXED_SIZE = 2 + 2 + PEER_ID_SIZE  # array head and format, head and bytes of brought_by


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """Value of `entries`. `brought_by` is a peer id of 32 bytes, `connector` an id of 8 to 32 bytes."""

    entry: bytes
    operation: bytes
    schema_id: str
    brought_by: bytes
    session_id: int
    connector: bytes

    def encode(self) -> bytes:
        """`[1, entry, operation, schema_id, brought_by, session_id, connector]`."""
        require(len(self.brought_by) == PEER_ID_SIZE, "entries", "brought_by is no peer id")
        require(len(self.connector) in CONNECTOR_ID_SIZES, "entries", "connector is no connector's id")
        return dump(
            FORMAT,
            self.entry,
            self.operation,
            self.schema_id,
            self.brought_by,
            self.session_id,
            self.connector,
        )

    @staticmethod
    def decode(value: bytes | None) -> "EntryRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, entry, operation, schema_id, brought_by, session_id, connector = load_array(value, "entries", 7)
        if type(entry) is not bytes:
            refuse_item("entries", "entry", entry, "bytes")
        if type(operation) is not bytes:
            refuse_item("entries", "operation", operation, "bytes")
        if type(schema_id) is not str:
            refuse_item("entries", "schema_id", schema_id, "text")
        if type(brought_by) is not bytes or len(brought_by) != PEER_ID_SIZE:
            refuse_item("entries", "brought_by", brought_by, "32 bytes")
        if not is_uint(session_id):
            refuse_item("entries", "session_id", session_id, "an unsigned integer of 64 bits")
        if type(connector) is not bytes or len(connector) not in CONNECTOR_ID_SIZES:
            refuse_item("entries", "connector", connector, "8 to 32 bytes")
        check_size(
            value,
            _FIXED_SIZE
            + string_size(len(entry))
            + string_size(len(operation))
            + text_size(schema_id)
            + head_size(session_id)
            + string_size(len(connector)),
            "entries",
        )
        return EntryRecord(entry, operation, schema_id, brought_by, session_id, connector)
