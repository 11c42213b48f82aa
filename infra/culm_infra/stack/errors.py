"""Errors of the local stack, its jars and its Java, with stable codes and hints."""

from __future__ import annotations

from typing import ClassVar

from culm_infra.errors import InfraError


class StackError(InfraError):
    """The local stack could not be started, reached or stopped."""

    code: ClassVar[str] = "stack"


class StackStartError(StackError):
    """The broker ended or did not answer in time while it was starting."""

    code: ClassVar[str] = "stack.start"


class StackNotRunningError(StackError):
    """An operation needs a running broker, and this stack has none."""

    code: ClassVar[str] = "stack.not_running"


class StackPortError(StackError):
    """A port that the stack needs is held by another process."""

    code: ClassVar[str] = "stack.port"


class StackStateError(StackError):
    """The record of the stack cannot be read."""

    code: ClassVar[str] = "stack.state"


class LockTimeoutError(StackError):
    """Another process held a lock for too long."""

    code: ClassVar[str] = "stack.lock"


class JavaNotFoundError(StackError):
    """No Java of a sufficient version was found."""

    code: ClassVar[str] = "java.not_found"


class JarError(StackError):
    """The jars could not be fetched."""

    code: ClassVar[str] = "jars.fetch"


class JarSumError(JarError):
    """A jar's bytes do not match the checksum in the table."""

    code: ClassVar[str] = "jars.sum"
