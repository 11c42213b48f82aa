"""Finding of a check, and the health that follows from all findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from culm_models.errors import CulmError

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check; ``advice`` is the remedy, if one is needed."""

    name: str
    state: State
    detail: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check that has not run yet; ``waits_for`` is what it may have to wait for."""

    name: str
    waits_for: str
    run: Callable[[], Iterable[Finding]]


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Return whether no check failed; warnings and skipped checks do not count."""
    return all(finding.state != "failed" for finding in findings)


def text_of(error: BaseException) -> str:
    """Return the text of an error; an error that is not Culm's own is named by its class, too."""
    return str(error) if isinstance(error, CulmError) else f"{type(error).__name__}: {error}"
