"""The settings of a channel: the profile's own, the job's, and the changes in the first `join` of its owner.

They come from untrusted peers, so the memory of filters is limited. A channel's filter has a limit of its
own. Filters of the default size exist for the channels in a worker's cache, which weighs them; larger ones
are counted together for the shard, permanently, since a channel's settings do not change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import cbor2

from culm_models.sds.errors import ChannelSettingsError
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_streaming.errors import StreamingError
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.records import Details

# The settings that a command may change, with their limits. Settings that limit the job's memory are not
# among them.
_LIMITS: Mapping[str, float] = {
    "causal_history_size": 1_000,
    "bloom_capacity": 1_000_000,
    "bloom_error_rate": 0.5,
    "possible_acks_threshold": 1_000,
    "resend_unacknowledged_ms": 86_400_000,
    "resend_possibly_acknowledged_ms": 86_400_000,
    "resend_max_ms": 86_400_000,
    "resend_attempts": 1_000,
    "fetch_retry_ms": 86_400_000,
    "fetch_max_ms": 86_400_000,
    "lost_timeout_ms": 366 * 86_400_000,
    "sync_messages": 1,
    "sync_floor_ms": 86_400_000,
    "sync_spread_ms": 86_400_000,
    "sync_ack_ms": 86_400_000,
    "sync_quiet_after": 1_000_000,
    "repair_requests": 1,
    "repair_t_min_ms": 86_400_000,
    "repair_t_max_ms": 86_400_000,
    "repair_groups": 1_000_000,
    "repair_max_requests": 100,
    "lamport_allowance_ms": 86_400_000,
}
BIND_SENDERS = "bind_senders"
"""The job's own setting: a sender id belongs to the key that first used it (`owners`)."""
_LEAST_MS = 100
# Most channels have the same settings, and are loaded from state again and again.
_KNOWN: dict[object, SdsSettings] = {}
_MAX_KNOWN = 1_024
_SHARD = b""


class FilterSizeError(StreamingError):
    """Settings of a `join` whose filter exceeds the limit of a channel or of a message."""

    code: ClassVar[str] = "sds.bloom.size"


class FilterBudgetError(StreamingError):
    """Settings of a `join` that need a large filter when the shard's limit for large filters is reached."""

    code: ClassVar[str] = "sds.bloom.full"


def settings_of(profile: Profile, changed: Details) -> SdsSettings:
    """Return the settings with changes. Raises `ChannelSettingsError`.

    Wire bytes are not kept: they are not part of the state, and a channel must be the same after a restart.
    """
    # With the types: in Python, True equals 1.
    key = profile, tuple([(name, type(changed[name]), changed[name]) for name in sorted(changed)])
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[key] = _made(profile, changed)
    return known


def _made(profile: Profile, changed: Details) -> SdsSettings:
    own = replace(SdsSettings.for_participants(profile), max_wire_bytes=0)
    if type(changed.get(BIND_SENDERS, False)) is not bool:
        raise ChannelSettingsError(f"{BIND_SENDERS} is true or false")
    checked: dict[str, Any] = {
        name: _checked(name, value) for name, value in changed.items() if name != BIND_SENDERS
    }
    return replace(own, **checked)


def _checked(name: str, value: Any) -> Any:
    limit = _LIMITS.get(name)
    if limit is None:
        raise ChannelSettingsError(f"{name!r} is no setting that a join can change")
    present = SdsSettings.__dataclass_fields__[name].default
    if value is None and name == "lost_timeout_ms":
        return None
    if isinstance(present, bool) is not isinstance(value, bool):
        raise ChannelSettingsError(f"{name} is not a setting of this type: {value!r}")
    if isinstance(present, float) is not isinstance(value, float) or not isinstance(value, (int, float)):
        raise ChannelSettingsError(f"{name} is not a setting of this type: {value!r}")
    if value > limit or (name.endswith("_ms") and 0 < value < _LEAST_MS):
        raise ChannelSettingsError(f"{name} is out of bounds: {value}")
    return value


def charge_filter(state: JobState, profile: Profile, wanted: SdsSettings, settings: ChannelsSettings) -> None:
    """Count the filter of a channel whose settings are decided now.

    Raises `FilterSizeError`, `FilterBudgetError`, `BloomShapeError`; nothing is counted then.
    """
    size = wanted.filter_bytes(profile)
    if size > settings.filter_bytes:
        raise FilterSizeError(f"a filter of {size} bytes where {settings.filter_bytes} are possible")
    if size <= SdsSettings.for_profile(profile).filter_bytes(profile):
        return
    blob = state.load(StateKind.FILTER_BYTES, _SHARD)
    total = size + (0 if blob is None else cbor2.loads(blob))
    if total > settings.shard_filter_bytes:
        raise FilterBudgetError(
            f"a filter of {size} bytes: the large ones of this shard have {settings.shard_filter_bytes} bytes"
        )
    state.save(StateKind.FILTER_BYTES, _SHARD, cbor2.dumps(total))
