"""What the links of one peer share."""

import random
from dataclasses import dataclass, field
from hashlib import blake2b

from culm_models.p2panda.errors import TooManySessionsError
from culm_models.p2panda.events import EventQueue
from culm_models.p2panda.sessions.session import Session, SessionState
from culm_models.p2panda.sessions.table import SessionTable
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import Announce


@dataclass(slots=True)
class PeerState:
    """One peer's settings, store, events and announcement, and the sessions of all its links."""

    peer_id: bytes
    store: LogStore
    settings: PeerSettings
    events: EventQueue
    random_seed: int
    announcement: Announce | None = None
    sessions_by_schema: dict[str, list[Session]] = field(default_factory=dict)
    """Every session of every link, so that a new entry finds those that it concerns."""
    tables: dict[bytes, SessionTable] = field(default_factory=dict)
    """The sessions of each link that is up, by remote."""
    rng: random.Random = field(init=False)
    _salts: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.random_seed)

    def next_salt(self, size: int) -> bytes:
        """A salt for a session, none for size 0: from the seed, and not to be told from former ones."""
        if not size:
            return b""
        self._salts += 1
        secret = self.random_seed.to_bytes(32, "big", signed=True)
        return blake2b(
            self._salts.to_bytes(8, "big"), digest_size=size, key=secret, person=b"culm salt"
        ).digest()

    def check_share(self, remote: bytes) -> None:
        """Raise `TooManySessionsError` where one session more would be more than this remote's share.

        All sessions that work count, which live ones do not. One place is kept for every remote that has
        no such session: those that ask for many leave the others their turn.
        """
        working = {
            other: sum(1 for session in table if session.state is not SessionState.LIVE)
            for other, table in self.tables.items()
        }
        total = sum(working.values())
        kept = sum(1 for count in working.values() if not count) if working.get(remote) else 0
        if total + kept >= self.settings.max_sessions:
            raise TooManySessionsError(
                f"{total} sessions of all remotes at work, {kept} places kept for others"
            )
