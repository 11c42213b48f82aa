"""Logs as text: JSON Lines of entry and operation in hex, and the JSON form of published test histories.

A line is `{"entry": hex, "operation": hex}`; other members are ignored. A whole document with the
member `chains`, each with `entries` of that form, is read as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, ClassVar

from culm_connectors.errors import ConnectorError

Pair = tuple[bytes, bytes]

_MAX_LINE_CHARACTERS = 16 * 1024 * 1024


class InterchangeError(ConnectorError):
    """The text is not JSON Lines of logs or a document with logs."""

    code: ClassVar[str] = "peer.interchange"


def read_pairs(source: IO[str]) -> Iterator[Pair]:
    """Iterate the entry and operation bytes of a text, in order.

    Raises `InterchangeError` with the number of the line.
    """
    for number, line in enumerate(
        iter(lambda: _decoded(source.readline, _MAX_LINE_CHARACTERS + 1), ""), start=1
    ):
        if len(line) > _MAX_LINE_CHARACTERS:
            raise InterchangeError(f"line {number} is longer than {_MAX_LINE_CHARACTERS} characters")
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            if number > 1:
                raise InterchangeError(f"line {number} is no JSON") from None
            # A document over several lines.
            value = _document(line + _decoded(source.read, _MAX_LINE_CHARACTERS))
        if isinstance(value, dict) and "chains" in value:
            yield from _chains(value)
        else:
            yield _pair(value, f"line {number}")


def _decoded(read: Callable[[int], str], limit: int) -> str:
    try:
        return read(limit)
    except UnicodeDecodeError as error:
        raise InterchangeError(f"the text is not UTF-8: {error.reason}") from None


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InterchangeError(f"neither JSON Lines nor a JSON document: {error}") from None


def _chains(document: dict[str, Any]) -> Iterator[Pair]:
    try:
        for position, chain in enumerate(document["chains"]):
            for entry in chain["entries"]:
                yield _pair(entry, f"chain {position}")
    except (TypeError, KeyError) as error:
        raise InterchangeError("`chains` is a list of objects with `entries`") from error


def _pair(value: Any, source: str) -> Pair:
    try:
        return bytes.fromhex(value["entry"]), bytes.fromhex(value["operation"])
    except (TypeError, KeyError, ValueError) as error:
        raise InterchangeError(f"{source} holds no `entry` and `operation` in hex") from error


def write_pairs(target: IO[str], pairs: Iterable[Pair]) -> int:
    """Write JSON Lines. Returns the number of lines."""
    count = 0
    for entry, operation in pairs:
        target.write(json.dumps({"entry": entry.hex(), "operation": operation.hex()}) + "\n")
        count += 1
    return count
