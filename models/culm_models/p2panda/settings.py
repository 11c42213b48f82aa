"""What one peer allows and does; every number is a bound on what remotes can make it keep or do."""

from dataclasses import dataclass
from typing import Final

from culm_models.p2panda.codec import Compat
from culm_models.p2panda.messages import MODE_LOG_HEIGHT
from culm_models.p2panda.stream import DEFAULT_MAX_MESSAGE_BYTES

MS_PER_S: Final = 1000
IMPLEMENTED_MODES: Final = frozenset((MODE_LOG_HEIGHT,))


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Settings of a `Peer`. Times are in milliseconds.

    `compat="aquadoggo"` speaks as the p2panda node does: its form of `Have`, announcement timestamps in
    seconds, no live mode, session ids reused from 0 as soon as no session is left.
    """

    live_mode: bool = True
    modes: tuple[int, ...] = (MODE_LOG_HEIGHT,)
    """The modes of sessions that are wanted; those that are not implemented are refused all the same."""
    compat: Compat = "spec"
    announce_seconds: bool = False
    auto_sync: bool = False
    """Start sessions by itself, on links that it dialled, for what both announcements name."""
    sync_interval_ms: int = 5_000
    """With `auto_sync`: how long after a session without live mode, or a failed one, the next one starts."""
    session_timeout_ms: int = 60_000
    """A session that is not live and in which nothing happens for this long has failed."""
    session_id_reset_ms: int = 60_000
    """Session ids start from 0 again when there was no session for this long."""
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    max_sessions_per_peer: int = 4
    max_schema_ids: int = 1_024
    """In one announcement or request."""
    max_outgoing: int = 4_096
    """Messages that wait for a remote; live entries beyond them are merged into ranges of their log."""
    max_outgoing_bytes: int = 4 * 1024 * 1024
    """The same bound in bytes: entries may be large."""
    max_events: int = 100_000
    """Events that wait to be taken; the oldest are dropped, and counted, beyond it."""

    def __post_init__(self) -> None:
        assert self.modes, "a peer speaks at least one mode"
        assert self.max_message_bytes > 0 and self.max_events > 0
        assert self.max_outgoing > 0 and self.max_outgoing_bytes > 0
        assert self.max_sessions_per_peer > 0 and self.max_schema_ids > 0

    def speaks(self, mode: int) -> bool:
        """Whether sessions of this mode are held."""
        return mode in self.modes and mode in IMPLEMENTED_MODES

    @property
    def offers_live_mode(self) -> bool:
        """What our `SyncDone` says."""
        return self.live_mode and self.compat == "spec"

    @property
    def timestamp_unit_ms(self) -> int:
        """The unit of our announcements' timestamps."""
        return MS_PER_S if self.announce_seconds or self.compat == "aquadoggo" else 1
