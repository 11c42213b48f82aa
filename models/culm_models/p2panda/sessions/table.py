"""The sessions of one pair of peers: ids, duplicates, precedence (specification "replication", 2).

Both sides take session ids from one sequence. If both send requests at once under the same id, or for the
same schemas, the request of the peer with the higher id stays. The peer with the lower id drops its own
pending session and accepts the other. A request that loses is ignored, without effect on running sessions.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from culm_models.p2panda.errors import (
    DuplicateSessionError,
    EmptySetError,
    TooManySchemasError,
    TooManySessionsError,
    UnsupportedModeError,
)
from culm_models.p2panda.events import EventQueue
from culm_models.p2panda.sessions.session import Session, SessionState
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import Announce, SyncRequest

_MAX_SESSION_ID = 2**64 - 1


class SessionTable:
    """The sessions that one local peer has with one remote."""

    __slots__ = (
        "_draining",
        "_idle_since",
        "_last_id",
        "_local",
        "_remote",
        "_sessions",
        "_settings",
        "_skipped",
    )

    def __init__(self, local: bytes, remote: bytes, settings: PeerSettings, now: int) -> None:
        assert local != remote, "a peer has no session with itself"
        self._local = local
        self._remote = remote
        self._settings = settings
        self._sessions: dict[int, Session] = {}
        self._last_id = -1
        self._skipped: int | None = None
        self._idle_since = now
        # For each session that is over but not fully sent: the position of its last message in the outgoing
        # queue.
        self._draining: deque[int] = deque()

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        """Return the session with this id."""
        return self._sessions.get(session_id)

    def covers(self, schema: str) -> bool:
        """Whether a session is about this schema."""
        return any(schema in session.schemas for session in self._sessions.values())

    def live_for(self, schema: str) -> Session | None:
        """Return the first session in live mode that is about this schema."""
        for session in self._sessions.values():
            if session.state is SessionState.LIVE and schema in session.schemas:
                return session
        return None

    def next_id(self, now: int) -> int:
        """Return the id for a new session that we request."""
        if self._settings.compat == "aquadoggo":
            last = next(reversed(self._sessions), -1)
        else:
            if not self._sessions and now - self._idle_since >= self._settings.session_id_reset_ms:
                self._last_id = -1
            last = self._last_id
        following = last + 1 if last < _MAX_SESSION_ID else 0
        # At most one step more than there are sessions.
        while following in self._sessions or following == self._skipped:
            following = following + 1 if following < _MAX_SESSION_ID else 0
        return following

    def skip_id(self, session_id: int) -> None:
        """Skip this id, whose request was refused: the remote may regard the session as open for a while."""
        self._skipped = session_id

    def check_shape(self, mode: int, schema_ids: tuple[str, ...]) -> None:
        """Raise the error of a session that is not possible, whichever side requests it."""
        if not self._settings.supports(mode):
            raise UnsupportedModeError(f"mode {mode} is not supported")
        if not schema_ids:
            raise EmptySetError("a session is about at least one schema")
        if len(schema_ids) > self._settings.max_schema_ids:
            raise TooManySchemasError(f"{len(schema_ids)} schemas, at most {self._settings.max_schema_ids}")

    def check_capacity(self, sent_count: int) -> None:
        """Raise `TooManySessionsError` if there is no capacity for another session.

        Sessions that are over count until their queued messages have been sent (`sent_count` is the number of
        messages that have left the queue so far). So a remote that does not read cannot make the queue grow.
        """
        while self._draining and self._draining[0] <= sent_count:
            self._draining.popleft()
        if len(self._sessions) + len(self._draining) >= self._settings.max_sessions_per_peer:
            raise TooManySessionsError(f"at most {self._settings.max_sessions_per_peer} sessions at a time")

    def check_own(self, schema_ids: tuple[str, ...]) -> None:
        """Raise `DuplicateSessionError` if a session about exactly these schemas exists."""
        for session in self._sessions.values():
            if session.schema_ids == schema_ids:
                raise DuplicateSessionError(f"session {session.session_id} is about the same schemas")

    def yielding(self, request: SyncRequest) -> list[Session]:
        """Return the sessions that give way to the remote's request: pending ones of ours, and refused ones.

        With `compat="aquadoggo"` the remote's own sessions give way as well: a node repeats a request under
        the id of a session of its own only if it has lost that session, which happens at the first entry that
        it cannot accept. Raises `DuplicateSessionError` if the request gives way.
        """
        rivals = [
            session
            for session in self._sessions.values()
            if session.session_id == request.session_id or session.schema_ids == request.schema_ids
        ]
        for session in rivals:
            if session.is_refused or (not session.local and self._settings.compat == "aquadoggo"):
                continue
            if not session.local or session.state is not SessionState.PENDING:
                raise DuplicateSessionError(
                    f"session {session.session_id} is running under the same id or about the same schemas"
                )
            if self._local > self._remote:
                raise DuplicateSessionError(f"our request for session {session.session_id} goes first")
        return rivals

    def add(self, session: Session) -> None:
        """Add a session that has begun."""
        assert session.session_id not in self._sessions, "this id is in use by another session"
        self._sessions[session.session_id] = session
        self._last_id = session.session_id

    def remove(self, session: Session, now: int, queued_count: int) -> None:
        """Remove a session; its last message is number `queued_count` of the outgoing queue."""
        del self._sessions[session.session_id]
        self._draining.append(queued_count)
        self._idle_since = now


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
    """All sessions of all links by schema, to find the sessions that a new entry concerns."""
    tables: dict[bytes, SessionTable] = field(default_factory=dict)
    """The sessions of each link that is up, by remote."""
    rng: random.Random = field(init=False)
    _salts: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.random_seed)

    def next_salt(self, size: int) -> bytes:
        """Return a salt for a session, empty for size 0.

        It is derived from the seed and cannot be predicted from earlier salts.
        """
        if not size:
            return b""
        self._salts += 1
        secret = self.random_seed.to_bytes(32, "big", signed=True)
        return blake2b(
            self._salts.to_bytes(8, "big"), digest_size=size, key=secret, person=b"culm salt"
        ).digest()

    def check_share(self, remote: bytes) -> None:
        """Raise `TooManySessionsError` if another session would exceed this remote's share.

        All working sessions count; live ones do not. One place is reserved for every remote without such a
        session, so that remotes that request many sessions leave places for the others.
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
