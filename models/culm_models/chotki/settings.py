"""Times and bounds of a connection (reference 4.0); a `max_…` bounds what a peer can make this side keep."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, Self, TypeAlias

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.tlv import LONG_MAX
from culm_models.errors import require

# Bytes, counts and milliseconds alike: far above what any of them can usefully be.
LARGEST_SETTING: Final = (1 << 50) - 1

Unreadable: TypeAlias = Literal["refuse", "quarantine"]
UNREADABLE: Final[tuple[Unreadable, ...]] = ("refuse", "quarantine")


class SettingsUnfit(ChotkiError, code="chotki.settings"):
    """Settings that no connection can have."""


@dataclass(frozen=True, slots=True)
class ChotkiSettings:
    """Settings of a `Session`. Times are in milliseconds. Raises `SettingsUnfit` for unfit ones."""

    ping_period_ms: int = 20_000
    """A ping is due when nothing came for so long: two thirds of what Go waits, so that pings never cross."""
    ping_wait_ms: int = 10_000
    """How long a ping waits for any record, and a new connection for the peer's handshake."""
    deaf_check_ms: int = 60_000
    """A ping is also due so long after the last pong, whatever else comes: a deaf peer goes on writing."""
    deaf_wait_ms: int = 30_000
    close_wait_ms: int = 1_000
    """How long the transport stays open for the peer's B after a one-shot session's own."""
    max_record_bytes: int = 134_217_728
    """A header that announces more is refused before a byte of the body is kept."""
    max_parcel_bytes: int = 100_000_000
    """A D beyond it gets no further field."""
    sync_cut_bytes: int | None = 268_435_456
    """A diff whose values exceed it is cut into parts that the peer keeps one by one. None: never."""
    max_sync_bytes: int = 8_589_934_592
    """All D's of one sync."""
    max_open_syncs: int = 64
    """Syncs open at a time on one connection."""
    sync_expiry_ms: int = 600_000
    """A sync whose next D did not come for so long is forgotten."""
    unreadable_values: Unreadable = "refuse"
    """What becomes of a diff with a value that does not parse: refused, or taken without that value."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int):
                require(1 <= value <= LARGEST_SETTING, SettingsUnfit, f"{field.name} is below 1 or too large")
        require(self.unreadable_values in UNREADABLE, SettingsUnfit, "unreadable_values has no such choice")
        require(
            self.max_record_bytes <= LONG_MAX and self.max_parcel_bytes <= LONG_MAX,
            SettingsUnfit,
            f"no record can be longer than {LONG_MAX} bytes",
        )

    @classmethod
    def for_compat(cls, compat: Compat) -> Self:
        """The defaults of our own behaviour, or of the Go replica's."""
        if compat is Compat.GO:
            return cls(ping_period_ms=30_000, sync_cut_bytes=None)
        return cls()
