"""Line numbers of the keys of a TOML document, which `tomllib` does not report.

The scanner relies on a valid document: `tomllib` has parsed it before.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

KeyPath = tuple[str | int, ...]
"""Keys of nested tables; the position in an array is a number."""

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY: Final = re.compile(r"[ \t]*(\"(?:\\.|[^\"\\])*\"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*(\.?)")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'", re.DOTALL
)
_PLAIN: Final = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, on which each key, table and element of an array stands."""
    return _Scanner(text.replace("\r\n", "\n")).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._arrays: dict[KeyPath, int] = {}
        """Number of elements of each array of tables."""

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while not self._at_end():
            if self._take("[["):
                path = self._absolute(self._key())
                index = self._arrays.get(path, 0)
                self._arrays[path] = index + 1
                table = (*path, index)
                self._note(path)
                self._note(table)
                self._at += 2
            elif self._take("["):
                table = self._absolute(self._key())
                self._note(table)
                self._at += 1
            else:
                self._pair(table)
        return self._lines

    def _at_end(self) -> bool:
        self._skip(_SPACE)
        return self._at >= len(self._text)

    def _take(self, token: str) -> bool:
        taken = self._text.startswith(token, self._at)
        if taken:
            self._at += len(token)
        return taken

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()

    def _note(self, path: KeyPath) -> None:
        self._lines.setdefault(path, self._text.count("\n", 0, self._at) + 1)

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while (match := _KEY.match(self._text, self._at)) is not None:
            self._at = match.end()
            parts.append(_unquoted(match[1]))
            if not match[2]:
                break
        return tuple(parts)

    def _absolute(self, key: KeyPath) -> KeyPath:
        """Return the path of a table's header: below an array of tables it names the last element."""
        path: KeyPath = ()
        for part in key[:-1]:
            path = (*path, part)
            self._note(path)
            if path in self._arrays:
                path = (*path, self._arrays[path] - 1)
        return (*path, key[-1])

    def _pair(self, table: KeyPath) -> None:
        key = self._key()
        for end in range(1, len(key) + 1):
            self._note((*table, *key[:end]))
        self._skip(_SPACE)
        if not key or not self._take("="):
            # Not TOML; `tomllib` has the message.
            self._at = len(self._text)
            return
        self._value((*table, *key))

    def _value(self, path: KeyPath) -> None:
        self._skip(_SPACE)
        self._note(path)
        if self._take("["):
            index = 0
            while not self._closed("]"):
                self._value((*path, index))
                index += 1
        elif self._take("{"):
            while not self._closed("}"):
                self._pair(path)
        elif _STRING.match(self._text, self._at) is not None:
            self._skip(_STRING)
        else:
            self._skip(_PLAIN)

    def _closed(self, bracket: str) -> bool:
        self._skip(_SPACE)
        self._take(",")
        self._skip(_SPACE)
        return self._take(bracket) or self._at >= len(self._text)


def _unquoted(key: str) -> str:
    if key[0] == '"':
        text: str = tomllib.loads(f"key = {key}")["key"]
        return text
    return key.strip("'")
