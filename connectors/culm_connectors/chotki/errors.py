"""Errors of Chotki at the edge, and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from culm_connectors.errors import ConnectorError
from culm_models.chotki.events import SessionEvent

LATE = "chotki.late"
LOOP = "chotki.loop"
REPEATED = "chotki.repeated"
ID_REUSED = "chotki.id_reused"
SOURCE_RESTORED = "chotki.source_restored"
GAP = "chotki.gap"
UNIQUE_DUPLICATE = "chotki.unique_duplicate"


class StoreIncomplete(ConnectorError):
    """The local store is being built and cannot serve before it reaches an epoch."""

    code: ClassVar[str] = "chotki.store_incomplete"


class TailTooLong(ConnectorError):
    """The edge had to drop live packets that no epoch has yet, so it cannot bring a peer up to date."""

    code: ClassVar[str] = "chotki.tail_full"


class StateUnreadable(ConnectorError):
    """A record of `chotki.state` cannot be read by this version. State without it must not be served."""

    code: ClassVar[str] = "chotki.state_unreadable"


class CopyIncomplete(ConnectorError):
    """A replica ended its session, or stopped sending, before it was read completely."""

    code: ClassVar[str] = "chotki.copy_incomplete"


@dataclass(frozen=True, slots=True)
class Warned(SessionEvent):
    """A problem for which nothing is refused (reference 4.6, 9.2 rule 9, 10.10)."""

    kind: ClassVar[str] = "warning"
    code: str
    message: str
