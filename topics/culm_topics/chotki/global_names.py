"""The global names, by name and by what they name (reference 2.6, 3.1: the map 0-2-1).

All names of a deployment stand in one map, a single field. `GlobalNames` reads it once, and takes operands
pair by pair from then on: to give a name costs the same however many there are.
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
"""What a name can be, the one that counts first where a term and a string are alike."""
_Key = tuple[int, bytes]


class _Pair(NamedTuple):
    """What a map says under a key: the key's stamp, which decides a merge, and the value."""

    raw: int
    src: int
    value_raw: int
    code: int
    value: bytes

    def named(self) -> Id | None:
        """What has the name; None where the pair was removed or its value is no reference."""
        if self.raw & 1 or self.value_raw & 1 or self.code != _R or not self.value:
            return None
        try:
            return Id.unzip(self.value)
        except ChotkiError:
            return None


class GlobalNames:
    """Names in the state of `value`, or operands on top of the names `below`, which may change meanwhile."""

    def __init__(self, value: bytes = b"", *, below: GlobalNames | None = None) -> None:
        self.below = below
        self._pairs: dict[_Key, _Pair] = {}
        self._keys_of: dict[Id, set[_Key]] = {}
        self._take(value, as_merged=False)

    def merge(self, operand: bytes) -> None:
        """Merge an operand of the map: of two pairs the one with the greater stamp stays."""
        self._take(operand, as_merged=True)

    def id_of(self, name: str) -> Id | None:
        """What has this name; None where nothing has."""
        for kind in _KINDS:
            pair = self._pair((kind, name.encode("utf-8", "replace")))
            if pair is not None and (id := pair.named()) is not None:
                return id
        return None

    def names_of(self, id: Id) -> tuple[str, ...]:
        """The names of an object or a class, in order."""
        found = {_text(key): None for key in self._keys(id) if self._names(key) == id}
        return tuple(sorted(name for name in found if self.id_of(name) in (id, None)))

    def all(self) -> dict[str, Id]:
        """Every name; takes as long as there are names."""
        found: dict[str, Id] = {}
        # Where a term and a string are alike, the term comes last and stays.
        for key in sorted(self._all_keys()):
            if (id := self._names(key)) is not None:
                found[_text(key)] = id
        return found

    def operand(self, name: str, id: Id) -> bytes:
        """What gives the name to this; empty when it has it already. Raises `RevisionsExhausted`."""
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
