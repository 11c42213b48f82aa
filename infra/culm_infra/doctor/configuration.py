"""The settings, as ``culm settings check`` examines them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from culm_infra.doctor.finding import Finding
from culm_infra.errors import SettingsError
from culm_infra.settings.check import check

_ADVICE = "docs/settings.md describes every setting; `culm settings show` says where each value comes from"


def check_settings(config: Path | None) -> Iterator[Finding]:
    """Check names, values, addresses and files of the settings; one finding for each wrong setting."""
    try:
        file, wrong = check(config)
    except SettingsError as error:
        yield Finding("settings", "failed", str(error), error.hint or _ADVICE)
        return
    for setting in wrong:
        yield Finding("settings", "failed", str(setting), _ADVICE)
    if not wrong:
        place = f"{file}" if file.is_file() else f"no file at {file}; the defaults and the environment"
        yield Finding("settings", "ok", f"{place}: in order")
