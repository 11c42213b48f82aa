"""What can go wrong at the edge of Chotki, and what is told without being refused."""

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
    """The local store is on its way to an epoch, and has nothing to serve until it is there."""

    code: ClassVar[str] = "chotki.store_incomplete"


class TailTooLong(ConnectorError):
    """More live packets are in no epoch than the edge keeps: it could not bring a peer up to date."""

    code: ClassVar[str] = "chotki.tail_full"


class StateUnreadable(ConnectorError):
    """A record of `chotki.state` is none that this version writes: what lacks it must not be served."""

    code: ClassVar[str] = "chotki.state_unreadable"


class CopyIncomplete(ConnectorError):
    """A replica that was to be read whole ended its session before, or said nothing more."""

    code: ClassVar[str] = "chotki.copy_incomplete"


@dataclass(frozen=True, slots=True)
class Warned(SessionEvent):
    """Something is not as it should be, and nothing is refused for it (reference 4.6, 9.2 rule 9, 10.10)."""

    kind: ClassVar[str] = "warning"
    code: str
    message: str
