"""`entries`: an entry as a connector received it, with who brought it and for which session.

Of a bare log, whose payloads are no operations, `schema_id` is empty and `operation` is the payload, or empty
where that is not inline.
"""

from typing import Annotated

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import ConnectorId, PeerId


@record("entries", "an entry as a connector received it. Key: log key (40 bytes, 41 of a YAMF log).")
class EntryRecord(Record):
    """Value of `entries`. `brought_by` is a peer id of 32 bytes, `connector` an id of 8 to 32 bytes."""

    entry: Annotated[bytes, "the Bamboo entry's bytes, as received"]
    operation: Annotated[bytes, "the operation's bytes, as received; of a bare log the payload, or empty"]
    schema_id: Annotated[str, "empty: a bare log, whose payloads are no operations"]
    brought_by: Annotated[PeerId, "the peer that brought it"]
    session_id: int
    connector: Annotated[ConnectorId, "the connector that took it"]
