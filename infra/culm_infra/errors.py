"""The base of the errors of this package: each has a stable code and may carry a hint with a remedy."""

from __future__ import annotations

from typing import ClassVar

from culm_models.errors import CulmError


class InfraError(CulmError):
    """An operating error of the command line or the local stack.

    ``hint`` is a remedy for the user; the command line prints it below the message.
    """

    code: ClassVar[str] = "infra"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SettingsError(InfraError):
    """A setting is missing or wrong."""

    code: ClassVar[str] = "infra.settings"


class NotReached(InfraError):
    """A condition was not reached while nothing changed any more; nothing is known to be wrong."""

    code: ClassVar[str] = "infra.not_reached"
