"""Times and limits of a connection (reference 4.0); `max_…` limits what a peer can make this side keep."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, Self, TypeAlias

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.tlv import LONG_MAX
from culm_models.errors import require

# For bytes, counts and milliseconds alike: far above any useful value.
LARGEST_SETTING: Final = (1 << 50) - 1

Unreadable: TypeAlias = Literal["refuse", "quarantine"]
UNREADABLE: Final[tuple[Unreadable, ...]] = ("refuse", "quarantine")


class SettingsUnfit(ChotkiError, code="chotki.settings"):
    """Settings that no connection can have."""


@dataclass(frozen=True, slots=True)
class ChotkiSettings:
    """Settings of a `Session`; times are in milliseconds. Raises `SettingsUnfit` for impossible values."""

    ping_period_ms: int = 20_000
    """Time without received data after which a ping is due: two thirds of Go's, so that pings never cross."""
    ping_wait_ms: int = 10_000
    """Time to wait for any record after a ping, and for the peer's handshake on a new connection."""
    deaf_check_ms: int = 60_000
    """Time since the last pong after which a ping is due even if data arrives: a deaf peer still writes."""
    deaf_wait_ms: int = 30_000
    close_wait_ms: int = 1_000
    """Time for which the transport stays open for the peer's B after this side's B."""
    max_record_bytes: int = 134_217_728
    """Largest body of a record: a larger header is refused before a byte of the body is kept."""
    max_parcel_bytes: int = 100_000_000
    """Size from which a D gets no further field."""
    sync_cut_bytes: int | None = 268_435_456
    """Size of values from which a diff is cut into parts that the peer keeps one by one. None: never."""
    max_sync_bytes: int = 8_589_934_592
    """Largest total size of the D packets of one sync."""
    max_open_syncs: int = 64
    """Largest number of syncs open at a time on one connection."""
    sync_expiry_ms: int = 600_000
    """Time after which a sync is forgotten if its next D does not arrive."""
    unreadable_values: Unreadable = "refuse"
    """Handling of a diff with a value that does not parse: refuse it, or accept it without that value."""

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
        """Return the defaults of Culm's own behaviour, or of the Go replica's."""
        if compat is Compat.GO:
            return cls(ping_period_ms=30_000, sync_cut_bytes=None)
        return cls()
