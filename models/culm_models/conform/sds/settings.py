"""Settings of an SDS channel as JSON, under Culm's names and under those of other implementations."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import ArgumentError
from culm_models.conform.forms import FLAG, NUMBER, MemberForm, SettingsForm, integer, or_never, plain_name
from culm_models.sds.settings import LARGEST_SETTING, SdsSettings
from culm_models.sds.wire.messages import Profile

# Other names, in snake case and without the unit, which may be left out of every name.
ALIASES: Final[dict[str, str]] = {
    "causal_history": "causal_history_size",
    "capacity": "bloom_capacity",
    "bloom_filter_capacity": "bloom_capacity",
    "error_rate": "bloom_error_rate",
    "bloom_filter_error_rate": "bloom_error_rate",
    "acks_threshold": "possible_acks_threshold",
    "ack_threshold": "possible_acks_threshold",
    "possible_ack_threshold": "possible_acks_threshold",
    "timeout_for_lost_messages": "lost_timeout",
    "timeout_to_mark_message_irretrievable": "lost_timeout",
    "lost_message_timeout": "lost_timeout",
    "lost_messages_timeout": "lost_timeout",
    "retry_interval": "resend_unacknowledged",
    "resend_interval": "resend_unacknowledged",
    "resend_timeout": "resend_unacknowledged",
    "max_retry_attempts": "resend_attempts",
    "max_resend_attempts": "resend_attempts",
    "sync_min_interval": "sync_floor",
    "sync_interval": "sync_floor",
    "query_interval": "fetch_retry",
    "fetch_interval": "fetch_retry",
    "enable_repair": "repair_requests",
    "t_min": "repair_t_min",
    "t_max": "repair_t_max",
    "num_response_groups": "repair_groups",
    "response_groups": "repair_groups",
    "buffer_size": "max_repairs",
}
_GROUPS: Final = ("repair_config", "repair")
_POSSIBLY_SLOWER: Final = 4
_COUNT: Final = integer(max_value=LARGEST_SETTING)
_SETTINGS: Final = SettingsForm(
    SdsSettings,
    {int: _COUNT, bool: FLAG, float: NUMBER},
    {"lost_timeout_ms": MemberForm(or_never(_COUNT))},
)


def settings_from_json(value: dict[str, Any], profile: Profile) -> SdsSettings:
    """Return the settings that an object names, with the profile's defaults for all others."""
    defaults, values = SdsSettings.for_profile(profile), _named(value)
    first_ms = values.get("resend_unacknowledged_ms")
    if first_ms is not None:
        first_ms = _COUNT.read(first_ms, "the setting resend_unacknowledged_ms")
        values.setdefault("resend_possibly_acknowledged_ms", first_ms * _POSSIBLY_SLOWER)
        values.setdefault("resend_max_ms", max(defaults.resend_max_ms, first_ms))
    return _SETTINGS.over(defaults, values)


def _named(value: dict[str, Any]) -> dict[str, Any]:
    """Return the values under Culm's names, with groups flattened."""
    values: dict[str, Any] = {}
    for name, item in value.items():
        plain = plain_name(name)
        if plain in _GROUPS and isinstance(item, dict):
            inner = _named(item)
        else:
            inner = {_SETTINGS.own_name(ALIASES.get(plain, plain)): item}
        for own, own_value in inner.items():
            if own in values and values[own] != own_value:
                raise ArgumentError(f"the setting {own} is given twice")
            values[own] = own_value
    return values
