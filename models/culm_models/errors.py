"""The root of every error that Culm raises on purpose.

`code` is a stable, dotted name ("bamboo.signature"): the same text appears on the `rejected` topic, in
metrics, in `--json` output and in conformance reports, so it is part of the public contract and never
changes meaning. The message (`str(error)`) is for people and may change.
"""

from typing import Any, ClassVar


class CulmError(Exception):
    """Base of all operating errors of Culm. Programmer errors are assertions instead.

    A subclass names its code: `class ForkError(BambooError, code="bamboo.fork")`.
    """

    code: ClassVar[str] = "culm"

    def __init_subclass__(cls, *, code: str | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        if code is not None:
            cls.code = code


class ModelError(CulmError, code="model"):
    """Data that breaks a rule of a replication protocol."""


def require(holds: bool, error: type[CulmError], message: str) -> None:
    """Raise `error(message)` unless `holds`: an assertion about external input, not removed by `-O`."""
    if not holds:
        raise error(message)
