"""Which logs a rule is about: one log, all of an author, one log id of everybody, or all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.log_store import LogKey

_EVERY: Final = "*"
_FORM: Final = re.compile(r"(\*|[0-9a-fA-F]{64})(?:/(\*|\d{1,20}))?")


@dataclass(frozen=True, slots=True)
class LogPattern:
    """Logs by author and log id; None stands for every one."""

    public_key: bytes | None = None
    log_id: int | None = None

    def matches(self, log: LogKey) -> bool:
        """Whether a log is one of them."""
        return self.public_key in (None, log[0]) and self.log_id in (None, log[1])

    @property
    def only_log(self) -> LogKey | None:
        """The log that it names, where that is one."""
        if self.public_key is None or self.log_id is None:
            return None
        return self.public_key, self.log_id

    def __str__(self) -> str:
        author = _EVERY if self.public_key is None else self.public_key.hex()
        return f"{author}/{_EVERY if self.log_id is None else self.log_id}"


def parse_log_pattern(text: str) -> LogPattern:
    """`*`, `KEY`, `KEY/*`, `KEY/ID` or `*/ID`, the key as 64 hex digits. Raises ValueError."""
    found = _FORM.fullmatch(text)
    if found is None or (found[2] not in (None, _EVERY) and int(found[2]) >= 2**64):
        raise ValueError(
            f"{text[:80]!r} names no logs: write *, KEY, KEY/ID or */ID, the key as 64 hex digits"
        )
    return LogPattern(
        None if found[1] == _EVERY else bytes.fromhex(found[1]),
        None if found[2] in (None, _EVERY) else int(found[2]),
    )
