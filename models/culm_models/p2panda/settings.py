"""What one peer allows and does; every number is a bound on what remotes can make it keep or do."""

from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from culm_models import lifts
from culm_models.errors import require
from culm_models.p2panda.errors import PeerSettingsError
from culm_models.p2panda.wire.codec import BYTES_AN_ITEM, FEWEST_ITEMS, Compat
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Offer,
)

MS_PER_S: Final = 1000
IMPLEMENTED_MODES: Final = frozenset((MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION))

Rule = Literal["even", "upstream"]
# A node names each log in 7 bytes and 3 items of CBOR.
_BYTES_AN_ITEM_OF_NODES: Final = 6
RULES: Final[tuple[Rule, ...]] = ("even", "upstream")
_AT_LEAST_ONE: Final = (
    "max_message_bytes",
    "max_events",
    "max_outgoing",
    "max_outgoing_bytes",
    "max_sessions_per_peer",
    "max_sessions",
    "max_schema_ids",
)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Settings of a `Peer`. Times are in milliseconds. Raises `PeerSettingsError` for unfit ones.

    `compat="aquadoggo"` speaks as the p2panda node does: its form of `Have`, announcement timestamps in
    seconds, no live mode, session ids reused from 0 as soon as no session is left.
    """

    live_mode: bool = True
    modes: tuple[int, ...] = (MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION)
    """The modes of sessions that are wanted, the preferred one first; unknown ones are refused all the same.

    A mode other than 0 is only asked for by `auto_sync` where the remote offers it.
    """
    compat: Compat = "spec"
    announce_seconds: bool = False
    auto_sync: bool = False
    """Start sessions by itself, on links that it dialled, for what both announcements name."""
    announce_offers: bool = False
    """Tell remotes the modes, lifts and forms that are spoken here by one more schema id (`offers`)."""
    lift: str = lifts.DEFAULT.name
    """How sessions of ours make fingerprints, unless the remote offers others only."""
    lifts: tuple[str, ...] = tuple(lift.name for lift in lifts.LIFTS)
    """The lifts that remotes may choose for sessions of theirs."""
    rule: Rule = "even"
    """How a range is split whose fingerprints differ (`culm_models.reconciliation`)."""
    payload_threshold: int = 8
    """Ranges of at most so many logs are named log by log."""
    range_division: int = 4
    """Other ranges are split into so many."""
    compact_form: bool = True
    """Write the messages of set reconciliation with binary keys to remotes that offer to read them."""
    sync_interval_ms: int = 5_000
    """With `auto_sync`: how long after a session without live mode the next one starts.

    After a failed one it is up to half of it more or less, and twice as long with each failure in a row.
    """
    max_backoff_ms: int = 300_000
    session_timeout_ms: int = 60_000
    """A session that is not live and in which nothing happens for this long has failed."""
    stall_timeout_ms: int = 600_000
    """As `session_timeout_ms`, where the remote takes nothing of what waits for it."""
    request_wait_ms: int = 0
    """How long a request for what we do not announce yet waits for our announcement, before it is refused.

    0: it is ignored at once, as the specification has it. Only requests of log height mode wait.
    """
    session_id_reset_ms: int = 60_000
    """Session ids start from 0 again when there was no session for this long."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """The largest message that is read; `max_sent_bytes` is what is sent."""
    max_sessions_per_peer: int = 4
    max_sessions: int = 256
    """Sessions of all remotes that work at a time; live ones, which do nothing by themselves, not counted."""
    max_schema_ids: int = 1_024
    """In one announcement or request."""
    max_announcement_bytes: int = 256 * 1024
    """What the schema ids of one announcement or request may take up; a remote chooses how long they are."""
    max_outgoing: int = 4_096
    """Messages that wait for a remote; live entries beyond them are merged into ranges of their log."""
    max_outgoing_bytes: int = 4 * 1024 * 1024
    """That bound in bytes: entries may be large."""
    max_run_items: int = 1 << 18
    """Logs that a remote may name one by one in one range of set reconciliation."""
    max_equal_heights: int = 10_000
    """Logs that a session of mode 1 found to be equal are told as heights if there are no more than this."""
    max_unread_bytes: int = 64 * 1024 * 1024
    """Answers in set reconciliation that wait for a remote; a session with more has failed."""
    max_events: int = 100_000
    """Events that wait to be taken; the oldest are dropped, and counted, beyond it."""

    def __post_init__(self) -> None:
        names = {lift.name for lift in lifts.LIFTS}
        for holds, message in (
            (bool(self.modes), "a peer speaks at least one mode"),
            (self.rule in RULES, f"there is no rule {self.rule!r}"),
            (self.payload_threshold > 0, "a range of one log cannot be split"),
            (self.range_division > 1, "a range is split into two at least"),
            (self.lift in self.lifts, "a lift that is not accepted cannot be asked for"),
            (names.issuperset(self.lifts), "an unknown lift"),
        ):
            require(holds, PeerSettingsError, message)
        for name in _AT_LEAST_ONE:
            require(getattr(self, name) > 0, PeerSettingsError, f"{name} is below 1")

    def for_latency(self) -> Self:
        """These settings with ranges cut finer: fewer rounds of set reconciliation for more bytes."""
        # Above the division: a part of 15 logs that is 17 at the remote is not worth another round.
        return replace(self, payload_threshold=24, range_division=16)

    def speaks(self, mode: int) -> bool:
        """Whether sessions of this mode are held."""
        return mode in self.modes and mode in IMPLEMENTED_MODES

    @property
    def offer(self) -> Offer | None:
        """What our announcements tell besides the schemas; None where that is nothing."""
        if not self.announce_offers or self.compat != "spec":
            return None
        return Offer(
            IMPLEMENTED_MODES.intersection(self.modes),
            frozenset(lifts.by_name(name).code for name in self.lifts),
            compact=self.compact_form,
        )

    @property
    def waits_for_announcement_ms(self) -> int:
        """`request_wait_ms`, unless the remote is a p2panda node: it asks again by itself."""
        return self.request_wait_ms if self.compat == "spec" else 0

    @property
    def max_sent_bytes(self) -> int:
        """The largest `Have` that is sent: a peer need not read more, a p2panda node reads any size."""
        if self.compat == "aquadoggo":
            return self.max_message_bytes
        return min(self.max_message_bytes, MAX_MESSAGE_BYTES)

    @property
    def max_message_items(self) -> int:
        """CBOR items in one message: as many as the largest `Have` of the dialect holds."""
        bytes_an_item = _BYTES_AN_ITEM_OF_NODES if self.compat == "aquadoggo" else BYTES_AN_ITEM
        return max(FEWEST_ITEMS, self.max_message_bytes // bytes_an_item)

    @property
    def offers_live_mode(self) -> bool:
        """What our `SyncDone` says."""
        return self.live_mode and self.compat == "spec"

    @property
    def timestamp_unit_ms(self) -> int:
        """The unit of our announcements' timestamps."""
        return MS_PER_S if self.announce_seconds or self.compat == "aquadoggo" else 1
