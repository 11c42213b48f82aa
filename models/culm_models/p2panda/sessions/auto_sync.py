"""Automatic sessions, begun by the dialler of a link: their mode, and the time of the next one.

After a session without live mode, the next one starts after a fixed time. After failures in a row, the time
grows, with jitter: peers that lost the same remote must not all reconnect at once.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Final

from culm_models.p2panda.sessions.session import Session
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.wire.messages import MODE_LOG_HEIGHT, Offer

_MAX_DOUBLINGS: Final = 32
_MAX_HEAL_DOUBLINGS: Final = 8
_JITTER: Final = (0.5, 1.5)


class AutoSync:
    """State of automatic sessions on one link. Times are in milliseconds."""

    __slots__ = (
        "_failures",
        "_given_up",
        "_heal_at",
        "_heals",
        "_resync_at",
        "_rng",
        "_served",
        "_settings",
        "_silent",
    )

    def __init__(self, settings: PeerSettings, rng: random.Random, now: int) -> None:
        self._settings = settings
        self._rng = rng
        self._resync_at: int | None = None
        self._failures = 0
        self._heals = 0
        self._heal_at = now
        self._given_up: set[int] = set()
        self._silent: set[int] = set()
        # When each schema was last requested, counted in sessions.
        self._served: dict[str, int] = {}

    def mode(self, offer: Offer | None) -> int:
        """Return the first of our modes that the remote offers; every remote offers log height mode."""
        fitting = [
            mode
            for mode in self._settings.modes
            if mode == MODE_LOG_HEIGHT or (offer is not None and mode in offer.modes)
        ]
        for mode in fitting:
            if not self._is_out(mode):
                return mode
        return (fitting or self._settings.modes)[0]

    def can_have(self, mode: int, offer: Offer | None) -> bool:
        """Whether the remote is known to accept sessions of a mode."""
        return offer is not None and mode in offer.modes and self._is_in(mode)

    def can_try(self, mode: int, offer: Offer | None) -> bool:
        """Whether the remote may accept sessions of a mode, by all that is known."""
        return (offer is None or mode in offer.modes) and self._is_in(mode)

    def _is_in(self, mode: int) -> bool:
        settings = self._settings
        return settings.supports(mode) and settings.compat == "spec" and not self._is_out(mode)

    def _is_out(self, mode: int) -> bool:
        return mode in self._given_up or mode in self._silent

    def give_up(self, mode: int) -> None:
        """Exclude a mode that did not work with this remote until the link is established again."""
        self._given_up.add(mode)

    def unanswered(self, mode: int) -> None:
        """Note an unanswered request. Log height mode is next; if it is unanswered too, the others again."""
        if mode == MODE_LOG_HEIGHT:
            self._silent.clear()
        else:
            self._silent.add(mode)

    def turn(self, schema_ids: Iterable[str]) -> int:
        """Return the sort key of a request: schemas that were requested longest ago, or never, come first."""
        return min(self._served.get(schema, 0) for schema in schema_ids)

    def asked_for(self, schema_ids: Sequence[str], common: Iterable[str]) -> None:
        """Note that a session begins; schemas that are not in `common` are forgotten."""
        turn = max(self._served.values(), default=0) + 1
        self._served = {schema: self._served.get(schema, 0) for schema in common}
        for schema in schema_ids:
            self._served[schema] = turn

    def begun(self) -> None:
        """Clear the time of the next session."""
        self._resync_at = None

    def finished(self, now: int) -> None:
        """Note that a session ended successfully, and schedule the next one."""
        self._failures = 0
        self._resync_at = now + self._settings.sync_interval_ms

    def went_live(self) -> None:
        """Note that a session reached live mode."""
        self._failures = 0

    def failed(self, now: int) -> None:
        """Note that a session failed or could not begin, and schedule the next one."""
        doubled = self._settings.sync_interval_ms << min(self._failures, _MAX_DOUBLINGS)
        self._failures += 1
        pause = min(doubled, self._settings.max_backoff_ms) * self._rng.uniform(*_JITTER)
        self._resync_at = now + int(pause)

    def is_due(self, now: int) -> bool:
        """Whether it is time to begin sessions."""
        return self._resync_at is not None and now >= self._resync_at

    def heals(self, session: Session, now: int) -> bool:
        """Whether to leave a live session now because entries are missing in it.

        The next session requests them. If that does not help, because the remote keeps skipping entries, the
        attempts become rarer.
        """
        if not session.has_gap or now < self._heal_at:
            return False
        self._heal_at = now + (self._settings.sync_interval_ms << self._heals)
        self._heals = min(self._heals + 1, _MAX_HEAL_DOUBLINGS)
        return True
