"""Budgets of each key, and the keys that are not served for a while because too much was refused.

A budget belongs to the key, not to the connection: whoever connects again goes on with what it had left. An
address has one for what is refused of all its keys together, since whoever makes keys makes peers; keys that
have brought anything sound are not held liable for others at their address.
"""

from __future__ import annotations

from culm_connectors.edge.budgets import OpenConnections, RememberedBudgets
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.rate_limit import TokenBucket
from culm_connectors.transport.principal import neighbourhood

MAX_KEPT = 8_192
"""Keys, and addresses, that are remembered while they have no connection."""

_MINUTE_S = 60.0


def own_announcements(settings: DriverSettings) -> TokenBucket:
    """Return the bucket of our own announcements: half of a remote's rate, so that no remote delays us."""
    return TokenBucket(
        settings.announcements_per_minute / _MINUTE_S / 2, max(1.0, settings.burst_announcements / 2)
    )


class Budget:
    """The buckets of one key; `address` is what its address shares with other keys."""

    address: Penalties

    def __init__(self, settings: DriverSettings, now_s: float) -> None:
        def bucket(rate: float, burst: float) -> TokenBucket:
            return TokenBucket(rate, burst, updated_s=now_s)

        self.messages = bucket(settings.messages_per_second, settings.burst_messages)
        self.control = bucket(settings.control_messages_per_second, settings.burst_control_messages)
        self.requests = bucket(settings.requests_per_minute / _MINUTE_S, settings.burst_requests)
        self.announcements = bucket(
            settings.announcements_per_minute / _MINUTE_S, settings.burst_announcements
        )
        self.ranges = bucket(settings.ranges_per_second, settings.burst_ranges)
        self.verifications = bucket(settings.verifications_per_second, settings.burst_verifications)
        self.items = bucket(settings.items_per_second, settings.burst_items)
        self.penalties = Penalties(settings.rejects_per_minute, settings.rejects_pause_s, now_s)
        self.connections = OpenConnections()
        self.is_trusted = False
        """Whether the key has sent at least one sound entry."""

    def refuse(self, count: float, now_s: float) -> bool:
        """Count refusals of this key's data; returns False if they are too many."""
        of_address = self.address.note(count, now_s)
        return self.penalties.note(count, now_s) and (of_address or self.is_trusted)

    def is_barred(self, now_s: float) -> bool:
        """Whether the key is not served at present."""
        return self.penalties.is_barred(now_s) or (not self.is_trusted and self.address.is_barred(now_s))


class Penalties:
    """Refusals of one key or address: above a rate it is barred for a time."""

    def __init__(self, per_minute: float, pause_s: float, now_s: float) -> None:
        self._bucket = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)
        self._pause_s = pause_s
        self._barred_until_s = now_s
        self.connections = OpenConnections()

    def note(self, count: float, now_s: float) -> bool:
        """Count refusals; returns False if they are too many."""
        if self._bucket.take(count, now_s):
            return True
        self._barred_until_s = now_s + self._pause_s
        return False

    def is_barred(self, now_s: float) -> bool:
        """Whether the pause is not over yet."""
        return now_s < self._barred_until_s


class Budgets:
    """The budgets of all keys and addresses that are connected, and of the last `MAX_KEPT` others."""

    def __init__(self, settings: DriverSettings) -> None:
        def address(now_s: float) -> Penalties:
            per_minute = settings.rejects_per_minute * settings.max_keys_per_address
            return Penalties(per_minute, settings.rejects_pause_s, now_s)

        self._keys = RememberedBudgets[bytes, Budget](
            lambda now_s: Budget(settings, now_s), remembered=MAX_KEPT
        )
        self._addresses = RememberedBudgets[str, Penalties](address, remembered=MAX_KEPT)

    def begin(self, remote: bytes, host: str, now_s: float) -> Budget:
        """Return the budget of a key that has come from this host, until `end`."""
        self._keys.begin(remote, now_s)
        self._addresses.begin(neighbourhood(host), now_s)
        return self.of(remote, host, now_s)

    def of(self, remote: bytes, host: str, now_s: float) -> Budget:
        """Return the budget of a key that comes from this host."""
        budget = self._keys.of(remote, now_s)
        budget.address = self._addresses.of(neighbourhood(host), now_s)
        return budget

    def end(self, remote: bytes, host: str) -> None:
        """End the use of a budget by a connection that has ended."""
        self._keys.end(remote)
        self._addresses.end(neighbourhood(host))
