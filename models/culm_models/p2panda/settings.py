"""Settings of one peer: what it offers, and limits on what remotes can make it keep or do."""

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
# A p2panda node names each log with 7 bytes and 3 CBOR items.
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
    """Settings of a `Peer`. Times are in milliseconds. Raises `PeerSettingsError` for invalid settings.

    `compat="aquadoggo"` follows the p2panda node: its form of `Have`, announcement timestamps in seconds, no
    live mode, and session ids that start from 0 again as soon as no session is left.
    """

    live_mode: bool = True
    modes: tuple[int, ...] = (MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION)
    """The modes of accepted sessions, the preferred one first. Unknown modes are refused even if listed.

    `auto_sync` requests a mode other than 0 only if the remote offers it.
    """
    compat: Compat = "spec"
    announce_seconds: bool = False
    auto_sync: bool = False
    """Start sessions automatically, on links that this side dialled.

    Their schemas are those that both announcements name.
    """
    announce_offers: bool = False
    """Announce the supported modes, lifts and forms to remotes, in an additional schema id (`offers`)."""
    lift: str = lifts.DEFAULT.name
    """The lift for fingerprints in sessions that we request, unless the remote offers only other lifts."""
    lifts: tuple[str, ...] = tuple(lift.name for lift in lifts.LIFTS)
    """The lifts that remotes may choose for sessions that they request."""
    rule: Rule = "even"
    """The rule by which a range with differing fingerprints is split (`culm_models.reconciliation`)."""
    payload_threshold: int = 8
    """Ranges of at most this many logs are listed log by log."""
    range_division: int = 4
    """Other ranges are split into this many parts."""
    compact_form: bool = True
    """Write the messages of set reconciliation with binary keys to remotes that offer to read them."""
    sync_interval_ms: int = 5_000
    """With `auto_sync`: time from the end of a session without live mode to the start of the next one.

    After a failed session it varies by up to half, and it doubles with each failure in a row.
    """
    max_backoff_ms: int = 300_000
    session_timeout_ms: int = 60_000
    """A session that is not live fails after this time without activity."""
    stall_timeout_ms: int = 600_000
    """The value of `session_timeout_ms` that applies while the remote takes none of its waiting messages."""
    request_wait_ms: int = 0
    """Time for which a request for schemas that we have not announced yet waits for our announcement.

    After it, the request is refused. 0: it is ignored at once, as the specification says. Only requests for
    log height mode wait.
    """
    session_id_reset_ms: int = 60_000
    """Session ids start from 0 again after this time without a session."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """The largest message that is read; `max_sent_bytes` limits messages that are sent."""
    max_sessions_per_peer: int = 4
    max_sessions: int = 256
    """Working sessions of all remotes at a time; live sessions, which cause no work, do not count."""
    max_schema_ids: int = 1_024
    """Schema ids in one announcement or request."""
    max_announcement_bytes: int = 256 * 1024
    """Total size of the schema ids in one announcement or request; a remote chooses how long they are."""
    max_outgoing: int = 4_096
    """Messages that wait for a remote; live entries beyond this limit are merged into ranges of their log."""
    max_outgoing_bytes: int = 4 * 1024 * 1024
    """The same limit in bytes, because entries may be large."""
    max_run_items: int = 1 << 18
    """Logs that a remote may list one by one in one range of set reconciliation."""
    max_equal_heights: int = 10_000
    """Logs that a session of mode 1 found equal are reported as heights if there are at most this many."""
    max_unread_bytes: int = 64 * 1024 * 1024
    """Answers in set reconciliation that wait for a remote; a session with more fails."""
    max_events: int = 100_000
    """Events that wait to be taken; beyond this limit the oldest are dropped and counted."""

    def __post_init__(self) -> None:
        names = {lift.name for lift in lifts.LIFTS}
        for holds, message in (
            (bool(self.modes), "a peer supports at least one mode"),
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
        """Return these settings with finer ranges: fewer rounds of set reconciliation for more bytes."""
        # Larger than the division: a part of 15 logs that has 17 at the remote is not worth another round.
        return replace(self, payload_threshold=24, range_division=16)

    def supports(self, mode: int) -> bool:
        """Whether sessions of this mode are supported."""
        return mode in self.modes and mode in IMPLEMENTED_MODES

    @property
    def offer(self) -> Offer | None:
        """The offer in our announcements, in addition to the schemas; None if there is none."""
        if not self.announce_offers or self.compat != "spec":
            return None
        return Offer(
            IMPLEMENTED_MODES.intersection(self.modes),
            frozenset(lifts.by_name(name).code for name in self.lifts),
            compact=self.compact_form,
        )

    @property
    def waits_for_announcement_ms(self) -> int:
        """`request_wait_ms`, or 0 with the p2panda node, which repeats its request by itself."""
        return self.request_wait_ms if self.compat == "spec" else 0

    @property
    def max_sent_bytes(self) -> int:
        """The largest `Have` that is sent: a peer need not read more, but a p2panda node reads any size."""
        if self.compat == "aquadoggo":
            return self.max_message_bytes
        return min(self.max_message_bytes, MAX_MESSAGE_BYTES)

    @property
    def max_message_items(self) -> int:
        """Maximum number of CBOR items in one message: as many as the largest `Have` of the dialect holds."""
        bytes_an_item = _BYTES_AN_ITEM_OF_NODES if self.compat == "aquadoggo" else BYTES_AN_ITEM
        return max(FEWEST_ITEMS, self.max_message_bytes // bytes_an_item)

    @property
    def offers_live_mode(self) -> bool:
        """The value of live mode in our `SyncDone`."""
        return self.live_mode and self.compat == "spec"

    @property
    def timestamp_unit_ms(self) -> int:
        """The unit of our announcements' timestamps, in milliseconds."""
        return MS_PER_S if self.announce_seconds or self.compat == "aquadoggo" else 1
