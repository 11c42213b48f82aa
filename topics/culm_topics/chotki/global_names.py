"""The global names, by name and by object or class (reference 2.6, 3.1: the map 0-2-1).

All names of a deployment are in one map, a single field. `GlobalNames` reads it once, and then merges
operands pair by pair: the cost of giving a name does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.first import magnitude, next_raw, pairs, write_element
from culm_topics.chotki.errors import RevisionsExhausted

_R, _S, _T = (ord(letter) for letter in "RST")
_KINDS: Final = (_T, _S)
"""The types of a name; the first one takes precedence if a term and a string are alike."""
_Key = tuple[int, bytes]


class _Pair(NamedTuple):
    """A pair of the map: the stamp of its key, which decides a merge, and its value."""

    raw: int
    src: int
    value_raw: int
    code: int
    value: bytes

    def named(self) -> Id | None:
        """Return the named ID; None if the pair was removed or its value is not a reference."""
        if self.raw & 1 or self.value_raw & 1 or self.code != _R or not self.value:
            return None
        try:
            return Id.unzip(self.value)
        except ChotkiError:
            return None


class GlobalNames:
    """Names in the state `value`, or operands on top of the names `below`, which may change meanwhile."""

    def __init__(self, value: bytes = b"", *, below: GlobalNames | None = None) -> None:
        self.below = below
        self._pairs: dict[_Key, _Pair] = {}
        self._keys_of: dict[Id, set[_Key]] = {}
        self._take(value, as_merged=False)

    def merge(self, operand: bytes) -> None:
        """Merge an operand of the map: the pair with the greater stamp wins."""
        self._take(operand, as_merged=True)

    def id_of(self, name: str) -> Id | None:
        """Return the ID with this name, or None."""
        for kind in _KINDS:
            pair = self._pair((kind, name.encode("utf-8", "replace")))
            if pair is not None and (id := pair.named()) is not None:
                return id
        return None

    def names_of(self, id: Id) -> tuple[str, ...]:
        """Return the names of an object or a class, in order."""
        texts = {_text(key): None for key in self._keys(id) if self._names(key) == id}
        return tuple(sorted(name for name in texts if self.id_of(name) in (id, None)))

    def all(self) -> dict[str, Id]:
        """Return every name; takes time in proportion to their number."""
        ids: dict[str, Id] = {}
        # If a term and a string are alike, the term comes last and wins.
        for key in sorted(self._all_keys()):
            if (id := self._names(key)) is not None:
                ids[_text(key)] = id
        return ids

    def operand(self, name: str, id: Id) -> bytes:
        """Return the operand that gives the name to this ID; empty if it has the name already.

        Raises `RevisionsExhausted`.
        """
        key = (_T, name.encode())
        pair = self._pair(key)
        if pair is None:
            raw = 0
        elif pair.named() == id:
            return b""
        else:
            former = max(pair.raw, pair.value_raw, key=magnitude)
            raw = next_raw(former)
            if magnitude(raw) <= magnitude(former):
                raise RevisionsExhausted(f"the name {name!r:.100} has the highest revision there is")
        return write_element(_T, raw, 0, key[1]) + write_element(_R, raw, 0, id.zip())

    def _take(self, value: bytes, *, as_merged: bool) -> None:
        for (kind, raw, src, name, _), (code, value_raw, _, bytes_, _) in pairs(value):
            if kind not in _KINDS:
                continue
            key, pair = (kind, name), _Pair(raw, src, value_raw, code, bytes_)
            former = self._pairs.get(key)
            if former is not None:
                # Within one value the last occurrence of a key counts.
                if as_merged and (former.raw, former.src) >= (raw, src):
                    continue
                if (id := former.named()) is not None:
                    self._keys_of[id].discard(key)
            self._pairs[key] = pair
            if (id := pair.named()) is not None:
                self._keys_of.setdefault(id, set()).add(key)

    def _pair(self, key: _Key) -> _Pair | None:
        own, under = self._pairs.get(key), None if self.below is None else self.below._pair(key)
        if own is None or under is None:
            return own or under
        return own if (own.raw, own.src) > (under.raw, under.src) else under

    def _names(self, key: _Key) -> Id | None:
        pair = self._pair(key)
        return None if pair is None else pair.named()

    def _keys(self, id: Id) -> Iterator[_Key]:
        yield from self._keys_of.get(id, ())
        if self.below is not None:
            yield from self.below._keys(id)

    def _all_keys(self) -> set[_Key]:
        return self._pairs.keys() | (set() if self.below is None else self.below._all_keys())


def _text(key: _Key) -> str:
    return key[1].decode("utf-8", "replace")
