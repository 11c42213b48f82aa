"""The root of every error that Culm raises on purpose.

`code` is a stable, dotted name ("bamboo.signature"): the same text appears on the `rejected` topic, in
metrics, in `--json` output and in conformance reports, so it is part of the public contract and never
changes meaning. The message (`str(error)`) is for people and may change.
"""

from typing import ClassVar


class CulmError(Exception):
    """Any operating error of Culm; programmer errors are assertions instead."""

    code: ClassVar[str] = "culm"


class ModelError(CulmError):
    """Bytes or facts that break a rule of one of the replication protocols."""

    code: ClassVar[str] = "model"


def require(holds: bool, error: type[CulmError], message: str) -> None:
    """Raise `error(message)` unless `holds`: an assertion about what others give us, which `-O` leaves in."""
    if not holds:
        raise error(message)
