"""The root of every error that Culm raises on purpose.

`code` is a stable, dotted name ("bamboo.signature"): the same text appears on the `rejected` topic, in
metrics, in `--json` output and in conformance reports, so it is part of the public contract and never
changes meaning. The message (`str(error)`) is for people and may change.
"""

from typing import Any, ClassVar


class CulmError(Exception):
    """Any operating error of Culm; programmer errors are assertions instead.

    A class below it names its code: `class ForkError(BambooError, code="bamboo.fork")`.
    """

    code: ClassVar[str] = "culm"

    def __init_subclass__(cls, *, code: str | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        if code is not None:
            cls.code = code


class ModelError(CulmError, code="model"):
    """Bytes or facts that break a rule of one of the replication protocols."""


def require(holds: bool, error: type[CulmError], message: str) -> None:
    """Raise `error(message)` unless `holds`: an assertion about what others give us, which `-O` leaves in."""
    if not holds:
        raise error(message)
