"""Settings: the documented defaults, and refusals of what cannot be."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from culm_models.sds.errors import ChannelSettingsError
from culm_models.sds.settings import LARGEST_SETTING, SdsSettings


def test_profiles_differ_in_what_their_peers_do() -> None:
    assert SdsSettings.for_profile("spec") == SdsSettings()
    js = SdsSettings.for_profile("js")
    assert (js.repair_t_min_ms, js.repair_t_max_ms) == (30_000, 120_000)
    assert replace(js, repair_t_min_ms=2_000, repair_t_max_ms=20_000) == SdsSettings()
    nim = SdsSettings.for_profile("nim")
    assert (nim.sync_messages, nim.repair_t_min_ms, nim.repair_t_max_ms) == (False, 30_000, 300_000)


@pytest.mark.parametrize("name", [field.name for field in fields(SdsSettings) if field.type in (int, "int")])
def test_every_number_is_bounded(name: str) -> None:
    for value in (-1, LARGEST_SETTING + 1):
        with pytest.raises(ChannelSettingsError, match=r"below|above|long"):
            replace(SdsSettings(), **{name: value})  # type: ignore[arg-type]  # the field's name is drawn


@pytest.mark.parametrize(
    "changed",
    [
        {"bloom_error_rate": 0.0},
        {"bloom_error_rate": 1.0},
        {"repair_t_min_ms": 2, "repair_t_max_ms": 1},
        {"resend_unacknowledged_ms": 700_000},
        {"causal_history_size": 10_001},
        {"max_log_entries": 0},
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, int]) -> None:
    with pytest.raises(ChannelSettingsError):
        replace(SdsSettings(), **changed)  # type: ignore[arg-type]  # drawn from a table
