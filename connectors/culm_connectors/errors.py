"""Base of the errors of this package: the edge's operating errors, each with a stable code."""

from __future__ import annotations

from typing import ClassVar

from culm_models.errors import CulmError


class ConnectorError(CulmError):
    """An operating error of the edge: its index, its Kafka bridges, its transport or its settings.

    ``hint`` states what the user can do about it; the command line prints it below the message.
    """

    code: ClassVar[str] = "connector"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class DirectoryInUse(ConnectorError):
    """Another connector runs over this directory: its key, its index and its folders."""

    code: ClassVar[str] = "connector.in_use"
