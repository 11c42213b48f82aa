"""What can go wrong with the local stack, its jars and its Java: each with a stable code and a hint."""

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
    """Something needs a running broker, and this stack has none."""

    code: ClassVar[str] = "stack.not_running"


class StackPortError(StackError):
    """A port that the stack needs is held by another process."""

    code: ClassVar[str] = "stack.port"


class StackStateError(StackError):
    """The stack's own record of itself cannot be read."""

    code: ClassVar[str] = "stack.state"


class LockTimeoutError(StackError):
    """Another process held a lock for too long."""

    code: ClassVar[str] = "stack.lock"


class JavaNotFoundError(StackError):
    """No Java that is new enough was found."""

    code: ClassVar[str] = "java.not_found"


class JarError(StackError):
    """The jars could not be fetched."""

    code: ClassVar[str] = "jars.fetch"


class JarSumError(JarError):
    """A jar's bytes are not the ones of the table."""

    code: ClassVar[str] = "jars.sum"
