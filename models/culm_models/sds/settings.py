"""Times and limits of a channel; every `max_…` limits what others can make it keep."""

from dataclasses import dataclass, fields, replace
from typing import Final, Self

from culm_models.errors import require
from culm_models.sds.bloom.filters import Rollover
from culm_models.sds.errors import ChannelSettingsError
from culm_models.sds.wire.messages import PROFILES, Profile

_MS_PER_H: Final = 3_600_000
# For counts, bytes and milliseconds alike: far above any useful value.
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
    """Settings of a `Channel`. Times are in milliseconds, even if the profile counts in seconds.

    Raises `ChannelSettingsError` for invalid values.
    """

    causal_history_size: int = 10
    """Number of messages that each message names; js names 200 by default, at about 100 bytes each."""
    bloom_capacity: int = 10_000
    bloom_error_rate: float = 0.001
    possible_acks_threshold: int = 2
    """Number of distinct senders whose filters must contain a message so that it counts as acknowledged."""
    resend_unacknowledged_ms: int = 30_000
    resend_possibly_acknowledged_ms: int = 120_000
    resend_max_ms: int = 600_000
    """Largest wait before a re-send; the wait doubles with each re-send up to this."""
    resend_attempts: int = 10
    fetch_first_ms: int = 0
    """Wait before the first fetch of a message that may only be late."""
    fetch_retry_ms: int = 2_000
    """Wait before a missing message is fetched again, doubled up to `fetch_max_ms`. It is short because all
    later messages wait. The first fetch asks the store, which may not have it yet, later ones also peers."""
    fetch_max_ms: int = 600_000
    lost_timeout_ms: int | None = _MS_PER_H
    """Time after which a missing message is lost; waiting messages are delivered without it. None: never."""
    sync_messages: bool = True
    """Whether to send syncs. False in profile nim, which has no syncs: its peers take them for content."""
    sync_floor_ms: int = 30_000
    """Least time between the channel's last message, of any sender, and a sync."""
    sync_spread_ms: int = 30_000
    """Random wait for a sync after the floor, of up to this; longer if many senders are known."""
    sync_ack_ms: int = 0
    """Approximate time within which a sync of one participant answers content that carries a filter, unless
    another message carries the news. 0: with the next sync (see `for_participants`)."""
    sync_quiet_after: int = 3
    """Number of sent syncs without effect after which no more are sent until there is news."""
    repair_requests: bool = True
    """Whether to request missing messages from the channel and answer such requests (SDS-R)."""
    repair_t_min_ms: int = 2_000
    repair_t_max_ms: int = 20_000
    repair_groups: int = 1
    repair_max_requests: int = 3
    """Largest number of requests in one message."""
    lamport_allowance_ms: int = _MS_PER_H
    """Limit of a Lamport timestamp ahead of the time; messages beyond it wait for their time."""
    max_quarantined: int = 1_000
    max_quarantined_bytes: int = 16 * 1024 * 1024
    max_log_entries: int = 100_000
    """Limit of the log; beyond it the oldest messages leave, and their ids stay known."""
    max_known_ids: int = 1_000_000
    """Limit of known ids besides those in the log, as digests of 16 bytes."""
    max_waiting: int = 10_000
    """Messages with unmet dependencies; beyond it the latest are dropped and fetched again later."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    max_waiting_dependencies: int = 500_000
    """Limit of unmet dependencies of all waiting messages together."""
    max_wanted: int = 100_000
    """Limit of missing ids."""
    max_lost: int = 100_000
    """Limit of ids that were given up; beyond it the oldest are forgotten."""
    max_outgoing: int = 10_000
    """Limit of unacknowledged messages per participant; beyond it sending is refused."""
    max_participants: int = 10_000
    max_senders: int = 10_000
    """Limit of distinct senders that are counted for the sync interval and as evidence."""
    max_repairs: int = 1_000
    """Limit of planned repair requests, and of planned answers."""
    max_message_bytes: int = 1024 * 1024
    max_history_entries: int = 10_000
    """Limit of entries in a received message's causal history, and of its repair requests."""
    max_wire_bytes: int = 16 * 1024 * 1024
    """Size of recent messages kept as they were on the wire, to answer repair requests; 0: none."""
    max_journal_records: int = 10_000
    """Limit of journal records kept until they are taken; beyond it the whole journal is rewritten."""

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
        """Return the defaults for channels of a profile.

        Repair requests and answers of profiles js and nim keep to the times of those implementations, since
        they are spread among them.
        """
        if profile == "nim":
            return cls(repair_t_min_ms=30_000, repair_t_max_ms=300_000, sync_messages=False)
        if profile == "js":
            return cls(repair_t_min_ms=30_000, repair_t_max_ms=120_000)
        return cls()

    @classmethod
    def for_participants(cls, profile: Profile) -> Self:
        """Return the defaults for participants that Culm runs or hosts.

        In profile spec they answer content soon. In js syncs keep to the times of that implementation, and
        nim has no syncs.
        """
        defaults = cls.for_profile(profile)
        return replace(defaults, sync_ack_ms=_ACK_MS) if profile == "spec" else defaults

    def filter_bytes(self, profile: Profile) -> int:
        """Return the largest size of a channel's filter in bytes; `BloomShapeError` for bad parameters."""
        layout = PROFILES[profile].bloom_layout
        return Rollover.of(layout, self.bloom_capacity, self.bloom_error_rate).byte_count
