"""The messages of p2panda replication (specification "replication", all message sections).

Values are checked where bytes come in (`codec`); here they are plain facts. Those of set reconciliation are
in `reconciliation_messages`.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from culm_models.reconciliation.messages import ReconciliationMessage

PROTOCOL_VERSION: Final = 1

MODE_LOG_HEIGHT: Final = 0
MODE_SET_RECONCILIATION: Final = 1

TYPE_ANNOUNCE: Final = 0
TYPE_SYNC_REQUEST: Final = 1
TYPE_ENTRY: Final = 2
TYPE_SYNC_DONE: Final = 3
TYPE_HAVE: Final = 10

LogHeight: TypeAlias = tuple[bytes, int, int]
"""Public key (32 bytes), log id, and the highest sequence number below which nothing is missing."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The schemas that a peer is interested in; `timestamp` grows with every announcement of that peer.

    `raw` holds the bytes as received, for whoever passes them on.
    """

    version: int
    timestamp: int
    schema_ids: tuple[str, ...]
    raw: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Opens a session over a set of schemas."""

    session_id: int
    mode: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryMessage:
    """One entry with its operation, both as their author made them."""

    session_id: int
    entry: bytes
    operation: bytes


@dataclass(frozen=True, slots=True)
class SyncDone:
    """The sender has sent all that it had; in live mode with `live_mode` false: it leaves."""

    session_id: int
    live_mode: bool


@dataclass(frozen=True, slots=True)
class Have:
    """Every log of the session's schemas that the sender holds, with its height."""

    session_id: int
    log_heights: tuple[LogHeight, ...]


Message: TypeAlias = Announce | SyncRequest | EntryMessage | SyncDone | Have | ReconciliationMessage
