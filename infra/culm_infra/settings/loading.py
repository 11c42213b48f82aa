"""Loading the settings in force, with the place that each value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from culm_infra.settings.findings import Origins, WrongSetting, explain, settings_error
from culm_infra.settings.sources import Sources, collect, config_file
from culm_infra.settings.tree import CulmSettings


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings in force, or what is wrong with them."""

    file: Path
    settings: CulmSettings | None
    """None if a value is wrong."""
    origins: Origins
    findings: list[WrongSetting]

    def in_force(self) -> CulmSettings:
        """Return the settings. Raises `SettingsError` with all findings if there are any."""
        if self.findings or self.settings is None:
            raise settings_error(self.findings)
        return self.settings


def load(*, config: Path | None = None, **flags: Any) -> CulmSettings:
    """Load the settings in force; ``flags`` that are None were not given. A section's flags are a dict.

    ``config`` is the settings file; by default see `config_file`. Raises `SettingsError` with the names of
    all wrong values and of all unknown settings.
    """
    return examine(config, flags).in_force()


def examine(config: Path | None = None, flags: dict[str, Any] | None = None) -> Loaded:
    """Load the settings and collect everything that is wrong. Raises `SettingsError` if the file cannot be
    read at all.
    """
    file = config_file(config)
    sources: Sources = collect(file, flags or {})
    try:
        settings = CulmSettings.model_validate(sources.values)
    except ValidationError as error:
        findings = [*sources.findings, *explain(error, sources.origins)]
        return Loaded(file, None, sources.origins, findings)
    return Loaded(file, settings, sources.origins, sources.findings)
