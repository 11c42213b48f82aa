"""Names of logs as people type them: ``KEY/LOG_ID``, the author's key in hex and the number of its log."""

from __future__ import annotations

import re
from typing import Final

import typer

from culm_models.varu64 import MAX_VALUE

FORM: Final = "KEY/LOG_ID"
_NAME: Final = re.compile(r"(?:([0-9a-fA-F]{64})/)?([0-9]{1,20})")


def parse_log_name(text: str, what: str = "--log") -> tuple[bytes | None, int]:
    """Parse ``KEY/LOG_ID``, or ``LOG_ID`` alone, for which the key is None. Raises `typer.BadParameter`."""
    named = _NAME.fullmatch(text)
    if named is None or int(named[2]) > MAX_VALUE:
        raise typer.BadParameter(
            f"{text[:120]!r} names no log: write {FORM}, the key as 64 hex digits", param_hint=what
        )
    return None if named[1] is None else bytes.fromhex(named[1]), int(named[2])


def parse_full_log_name(text: str, what: str = "--log") -> tuple[bytes, int]:
    """Parse ``KEY/LOG_ID``. Raises `typer.BadParameter`, also if the key is missing."""
    key, log_id = parse_log_name(text, what)
    if key is None:
        raise typer.BadParameter(f"{text!r} lacks the author's key: write {FORM}", param_hint=what)
    return key, log_id
