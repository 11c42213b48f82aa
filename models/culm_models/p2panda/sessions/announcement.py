"""Announcements: one for each peer, the latest (specification "replication", announcement)."""

from collections.abc import Iterable, Set

from culm_models.p2panda.errors import P2pandaError
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.wire import messages
from culm_models.p2panda.wire.messages import PROTOCOL_VERSION, Announce, Offer

_HEADS_BYTES = 29
"""Upper limit of the bytes of an announcement besides its list's items: type, version, timestamp, two heads.
"""
_ITEM_HEAD_BYTES = 9


class AnnouncementError(P2pandaError, code="p2panda.announcement"):
    """Base class of errors for which an announcement is ignored."""


class LateAnnouncementError(AnnouncementError, code="p2panda.announcement.late"):
    """The announcement's timestamp is not larger than that of the known announcement."""


class AnnouncementVersionError(AnnouncementError, code="p2panda.announcement.version"):
    """The announcement has a version of the protocol that is not supported here."""


class AnnouncementSizeError(AnnouncementError, code="p2panda.announcement.size"):
    """The announcement names more or longer schema ids than are accepted."""


def succeed(former: Announce | None, schema_ids: Iterable[str], now: int, unit_ms: int) -> Announce:
    """Return our next announcement, whose timestamp is the time, but always larger than the previous one.

    Otherwise two changes within one unit of time would have the same timestamp, and the second would be lost.
    Raises `SchemaIdError`.
    """
    timestamp = max(0, now // unit_ms)
    if former is not None:
        timestamp = max(timestamp, former.timestamp + 1)
    return Announce(PROTOCOL_VERSION, timestamp, identifiers.normalise(schema_ids))


class LinkAnnouncements:
    """The announcements of both sides of a link, and the remote's offer."""

    def __init__(self, settings: PeerSettings, allowed: Set[str] | None) -> None:
        """`allowed`: the schemas that the remote may replicate; None for all of them."""
        self.ours: Announce | None = None
        """Our latest announcement, reduced to the schemas that the remote may know."""
        self.theirs: Announce | None = None
        self.offer: Offer | None = None
        self._settings = settings
        self._allowed = allowed

    def renew(self, latest: Announce) -> Announce | None:
        """Replace our announcement; returns the message to send, None if nothing changed for the remote."""
        former, self.ours = self.ours, _within(latest, self._allowed)
        # A restricted remote must not notice changes that do not concern it, not even by a repeated
        # announcement.
        if self._allowed is None or former is None or former.schema_ids != self.ours.schema_ids:
            return with_offer(self.ours, self._settings.offer)
        return None

    def receive(self, received: Announce) -> Announce | None:
        """Replace the remote's announcement; returns the previous one. Raises `AnnouncementError`."""
        received, offer = without_offer(received)
        _check_replaces(self.theirs, received, self._settings)
        former, self.theirs, self.offer = self.theirs, received, offer
        return former

    @property
    def common(self) -> tuple[str, ...]:
        """The schemas that both sides announce, in the order of a set."""
        if self.ours is None or self.theirs is None:
            return ()
        named = set(self.theirs.schema_ids)
        return tuple(schema for schema in self.ours.schema_ids if schema in named)


def _within(ours: Announce, allowed: Set[str] | None) -> Announce:
    """Return our announcement reduced to the schemas that a remote may replicate; None for all of them."""
    if allowed is None:
        return ours
    return Announce(ours.version, ours.timestamp, tuple(filter(allowed.__contains__, ours.schema_ids)))


def with_offer(ours: Announce, offer: Offer | None) -> Announce:
    """Return our announcement as it is sent, with the offer as an additional schema id."""
    if offer is None:
        return ours
    schema_ids = identifiers.normalise((*ours.schema_ids, messages.offer_marker(offer)))
    return Announce(ours.version, ours.timestamp, schema_ids)


def without_offer(received: Announce) -> tuple[Announce, Offer | None]:
    """Separate a received announcement from the offer in it."""
    schema_ids, offer = messages.split_offer(received.schema_ids)
    if len(schema_ids) == len(received.schema_ids):
        return received, None
    return Announce(received.version, received.timestamp, schema_ids, received.raw), offer


def _check_replaces(former: Announce | None, received: Announce, settings: PeerSettings) -> None:
    """Raise an `AnnouncementError` if a remote's announcement does not replace the previous one."""
    max_schema_ids, max_bytes = settings.max_schema_ids, settings.max_announcement_bytes
    if received.version != PROTOCOL_VERSION:
        raise AnnouncementVersionError(f"version {received.version} is not supported")
    if len(received.schema_ids) > max_schema_ids:
        raise AnnouncementSizeError(f"{len(received.schema_ids)} schemas, at most {max_schema_ids} are taken")
    # Ignored names count as well, because the announcement is stored and published as received.
    size = max(
        sum(map(len, received.schema_ids)),
        len(received.raw or b"") - _HEADS_BYTES - _ITEM_HEAD_BYTES * len(received.schema_ids),
    )
    if size > max_bytes:
        raise AnnouncementSizeError(f"schema ids of {size} bytes, at most {max_bytes} are taken")
    if former is not None and received.timestamp <= former.timestamp:
        raise LateAnnouncementError(f"timestamp {received.timestamp} is not after {former.timestamp}")
