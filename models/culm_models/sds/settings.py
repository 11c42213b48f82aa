"""What a channel does when, and how much it keeps; every `max_…` bounds what others can make it keep."""

from dataclasses import dataclass, fields, replace
from typing import Final, Self

from culm_models.errors import require
from culm_models.sds.bloom.filters import Rollover
from culm_models.sds.errors import ChannelSettingsError
from culm_models.sds.wire.messages import PROFILES, Profile

_MS_PER_H: Final = 3_600_000
# Counts, bytes and milliseconds alike: far above what any of them can usefully be.
LARGEST_SETTING: Final = (1 << 40) - 1
_RATE_LEAST: Final = 1e-9
_ACK_MS: Final = 1_000
_MAY_BE_ZERO: Final = frozenset(
    {
        "causal_history_size",
        "sync_spread_ms",
        "sync_ack_ms",
        "fetch_first_ms",
        "repair_max_requests",
        "lamport_allowance_ms",
        "max_wire_bytes",
    }
)


@dataclass(frozen=True, slots=True)
class SdsSettings:
    """Settings of a `Channel`. Times are in milliseconds, also where the profile counts in seconds.

    Raises `ChannelSettingsError` for unfit ones.
    """

    causal_history_size: int = 10
    """Messages named by each message; js names 200 by default, at about 100 bytes for each."""
    bloom_capacity: int = 10_000
    bloom_error_rate: float = 0.001
    possible_acks_threshold: int = 2
    """A message found in the filters of so many distinct senders counts as acknowledged."""
    resend_unacknowledged_ms: int = 30_000
    resend_possibly_acknowledged_ms: int = 120_000
    resend_max_ms: int = 600_000
    """Each time one is sent again its wait doubles, up to this."""
    resend_attempts: int = 10
    fetch_first_ms: int = 0
    """How long a message that may only be late is waited for before it is fetched."""
    fetch_retry_ms: int = 2_000
    """A missing message is fetched again after this, then after twice as long, up to `fetch_max_ms`: all that
    follows it waits. The first fetch asks the store, which may not have it yet, the next one peers too."""
    fetch_max_ms: int = 600_000
    lost_timeout_ms: int | None = _MS_PER_H
    """What is missing for so long is lost: what waits for it is delivered without it. None: never."""
    sync_messages: bool = True
    """Send syncs. Off in profile nim, which has no such messages: its peers take them for content."""
    sync_floor_ms: int = 30_000
    """No sync so soon after the channel's last message, of whomever."""
    sync_spread_ms: int = 30_000
    """A sync comes at random within this after the floor, or within more where many senders are known."""
    sync_ack_ms: int = 0
    """Content that carries a filter is answered by a sync of one participant within about this, unless
    another message carries the news. 0: with the next sync (see `for_participants`)."""
    sync_quiet_after: int = 3
    """After so many syncs that taught nobody anything there are no more until there is news."""
    repair_requests: bool = True
    """Ask the channel for missing messages and answer such requests (SDS-R)."""
    repair_t_min_ms: int = 2_000
    repair_t_max_ms: int = 20_000
    repair_groups: int = 1
    repair_max_requests: int = 3
    """Requests that one message carries."""
    lamport_allowance_ms: int = _MS_PER_H
    """A Lamport timestamp further ahead of the time than this is not taken before its time has come."""
    max_quarantined: int = 1_000
    max_quarantined_bytes: int = 16 * 1024 * 1024
    max_log_entries: int = 100_000
    """The oldest messages leave the log beyond it; their ids stay known."""
    max_known_ids: int = 1_000_000
    """Ids that are known beyond those in the log, as digests of 16 bytes."""
    max_waiting: int = 10_000
    """Messages with unmet dependencies; the latest are dropped beyond it and fetched again in their turn."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    max_waiting_dependencies: int = 500_000
    """Unmet dependencies of all waiting messages."""
    max_wanted: int = 100_000
    """Missing ids."""
    max_lost: int = 100_000
    """Ids that were given up; the oldest are forgotten beyond it."""
    max_outgoing: int = 10_000
    """Unacknowledged messages of one participant; sending more is refused."""
    max_participants: int = 10_000
    max_senders: int = 10_000
    """Distinct senders that are counted for the sync interval and as evidence."""
    max_repairs: int = 1_000
    """Repair requests to send, and to answer."""
    max_message_bytes: int = 1024 * 1024
    max_history_entries: int = 10_000
    """Entries of a received message's causal history, and of its repair requests."""
    max_wire_bytes: int = 16 * 1024 * 1024
    """Recent messages kept as they were on the wire, to answer repair requests; 0: none."""
    max_journal_records: int = 10_000
    """Journal records kept until they are taken; beyond it the whole journal is written anew."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or value is None:
                continue
            if isinstance(value, float):
                if not _RATE_LEAST <= value < 1:
                    raise ChannelSettingsError(f"{field.name} is not between {_RATE_LEAST} and 1")
                continue
            least = 0 if field.name in _MAY_BE_ZERO else 1
            if not least <= value <= LARGEST_SETTING:
                raise ChannelSettingsError(f"{field.name} is below {least} or too large")
        for holds, message in (
            (self.repair_t_min_ms <= self.repair_t_max_ms, "repair_t_min_ms is above repair_t_max_ms"),
            (self.resend_unacknowledged_ms <= self.resend_max_ms, "the first wait is above resend_max_ms"),
            (self.causal_history_size <= self.max_history_entries, "the own causal history is too long"),
        ):
            require(holds, ChannelSettingsError, message)

    @classmethod
    def for_profile(cls, profile: Profile) -> Self:
        """The defaults for channels of a profile.

        Repair requests and answers of profiles js and nim keep to the times of those implementations, among
        whom they are spread.
        """
        if profile == "nim":
            return cls(repair_t_min_ms=30_000, repair_t_max_ms=300_000, sync_messages=False)
        if profile == "js":
            return cls(repair_t_min_ms=30_000, repair_t_max_ms=120_000)
        return cls()

    @classmethod
    def for_participants(cls, profile: Profile) -> Self:
        """The defaults of participants that Culm runs or hosts.

        In profile spec they answer content soon. In js syncs keep to the times of that implementation, and
        nim has none.
        """
        defaults = cls.for_profile(profile)
        return replace(defaults, sync_ack_ms=_ACK_MS) if profile == "spec" else defaults

    def filter_bytes(self, profile: Profile) -> int:
        """What a channel's filter takes at most, in bytes. Raises BloomShapeError for measures of none."""
        layout = PROFILES[profile].bloom_layout
        return Rollover.of(layout, self.bloom_capacity, self.bloom_error_rate).byte_count
