"""What can go wrong at the edge of Chotki, beside what a session refuses."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.errors import ConnectorError


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
