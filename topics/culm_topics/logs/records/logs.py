"""`entries` and `logs`: an entry as a connector received it, and, once verified, in the order of its log.

The value of `logs` depends on the entry and its operation alone: every writer writes the same bytes. In a
bare log, whose payloads are not operations, `schema_id` is empty. `operation` is then the payload, or empty
if the payload is not inline: the entry states its size, and the topic `payloads` may hold it.
"""

from typing import Annotated, Final

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import ConnectorId, PeerId
from culm_topics.records.kinds import between, rule, sized


@record("entries", "an entry as a connector received it. Key: log key (40 bytes, 41 of a YAMF log).")
class EntryRecord(Record):
    """Value of `entries`. `brought_by` is a peer id of 32 bytes, `connector` an id of 8 to 32 bytes."""

    entry: Annotated[bytes, "the Bamboo entry's bytes, as received"]
    operation: Annotated[bytes, "the operation's bytes, as received; in a bare log the payload, or empty"]
    schema_id: Annotated[str, "empty: a bare log, whose payloads are not operations"]
    brought_by: Annotated[PeerId, "the peer that sent it"]
    session_id: int
    connector: Annotated[ConnectorId, "the connector that received it"]


ENTRY_HASH_SIZE: Final = 34
"""Size of a YASMF entry's hash; every operation has one."""
YAMF_ENTRY_HASH_SIZE: Final = 66

EntryHash = Annotated[
    bytes,
    sized(ENTRY_HASH_SIZE, YAMF_ENTRY_HASH_SIZE),
    rule("hash", "YASMF (BLAKE3), or YAMF (BLAKE2b) if the log key says so"),
]
"""An entry's hash, of either flavour."""


@record(
    "logs", "a verified entry, in sequence order within its log. Key: log key (40 bytes, 41 of a YAMF log)."
)
class LogRecord(Record):
    """Value of `logs`. `entry_hash` (34 bytes, 66 in a YAMF log) is the entry's identifier everywhere."""

    seq_num: Annotated[int, between(1)]
    entry: Annotated[bytes, "the Bamboo entry's bytes, as its author signed them"]
    operation: Annotated[
        bytes, "the payload in a bare log; empty although the entry states a size: not inline"
    ]
    entry_hash: EntryHash
    schema_id: Annotated[str, "empty: a bare log, whose payloads are not operations"]
