"""How much of a process each key may use, and who is not served for a while because too much was refused.

A budget belongs to the key, not to the connection: whoever connects anew goes on with what it had left. An
address has one for what is refused of all its keys together, since whoever makes keys makes peers; keys that
have brought anything sound are not held liable for others at their address.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.rate_limit import TokenBucket

MAX_KEPT = 8_192
"""Keys, and addresses, that are remembered while they have no connection."""

_MINUTE_S = 60.0
_IPV6_SITE_BITS = 64


def own_announcements(settings: DriverSettings) -> TokenBucket:
    """What we announce ourselves: half of what we would read of a remote, so that none keeps us waiting."""
    return TokenBucket(
        settings.announcements_per_minute / _MINUTE_S / 2, max(1.0, settings.announcement_burst / 2)
    )


class Budget:
    """The buckets of one key; `address` is the one that its address shares with other keys."""

    def __init__(self, settings: DriverSettings, address: Offences, now_s: float) -> None:
        def bucket(rate: float, burst: float) -> TokenBucket:
            return TokenBucket(rate, burst, updated_s=now_s)

        self.messages = bucket(settings.messages_per_second, settings.message_burst)
        self.control = bucket(settings.control_messages_per_second, settings.control_message_burst)
        self.requests = bucket(settings.requests_per_minute / _MINUTE_S, settings.request_burst)
        self.announcements = bucket(
            settings.announcements_per_minute / _MINUTE_S, settings.announcement_burst
        )
        self.ranges = bucket(settings.ranges_per_second, settings.range_burst)
        self.verifications = bucket(settings.verifications_per_second, settings.verification_burst)
        self.items = bucket(settings.items_per_second, settings.item_burst)
        self.offences = Offences(settings.rejects_per_minute, settings.rejects_pause_s, now_s)
        self.address = address
        self.is_trusted = False
        """Whether something that it brought was sound."""

    def refuse(self, count: float, now_s: float) -> bool:
        """So much of what it sent was refused; False where that is too much."""
        of_address = self.address.note(count, now_s)
        return self.offences.note(count, now_s) and (of_address or self.is_trusted)

    def is_barred(self, now_s: float) -> bool:
        """Whether it is not served for now."""
        return self.offences.is_barred(now_s) or (not self.is_trusted and self.address.is_barred(now_s))


class Offences:
    """What is refused of one key or address: above a rate it is barred, for a time."""

    def __init__(self, per_minute: float, pause_s: float, now_s: float) -> None:
        self._bucket = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)
        self._pause_s = pause_s
        self._barred_until_s = now_s

    def note(self, count: float, now_s: float) -> bool:
        """So much was refused; False where that is too much."""
        if self._bucket.take(count, now_s):
            return True
        self._barred_until_s = now_s + self._pause_s
        return False

    def is_barred(self, now_s: float) -> bool:
        """Whether the pause is not over yet."""
        return now_s < self._barred_until_s


class Budgets:
    """The budgets of all keys that are connected, and of the last `MAX_KEPT` others."""

    def __init__(self, settings: DriverSettings, is_connected: Callable[[bytes], bool]) -> None:
        self._settings = settings
        self._is_connected = is_connected
        self._keys: OrderedDict[bytes, Budget] = OrderedDict()
        self._addresses: OrderedDict[str, Offences] = OrderedDict()

    def of(self, remote: bytes, host: str, now_s: float) -> Budget:
        """The budget of a key that comes from this host."""
        address = self._address(site(host), now_s)
        budget = self._keys.get(remote)
        if budget is None:
            budget = self._keys[remote] = Budget(self._settings, address, now_s)
        budget.address = address
        self._keys.move_to_end(remote)
        while len(self._keys) > MAX_KEPT and self._forget_oldest():
            pass
        return budget

    def _address(self, name: str, now_s: float) -> Offences:
        address = self._addresses.get(name)
        if address is None:
            settings = self._settings
            address = self._addresses[name] = Offences(
                settings.rejects_per_minute * settings.keys_an_address, settings.rejects_pause_s, now_s
            )
        self._addresses.move_to_end(name)
        if len(self._addresses) > MAX_KEPT:
            self._addresses.popitem(last=False)
        return address

    def _forget_oldest(self) -> bool:
        """Forget the key that came longest ago and has gone; False where all are connected."""
        for remote in self._keys:
            if not self._is_connected(remote):
                del self._keys[remote]
                return True
        return False


def site(host: str) -> str:
    """What one customer of a network has: an IPv4 address, or the first half of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.IPv6Network((address, _IPV6_SITE_BITS), strict=False))
