"""The verdict: every store and vector against the merge of all, and counters with what was added to them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culm_infra.demo.chotki.plan import LETTERS
from culm_infra.demo.chotki.report import HolderFigures, TypeFigures
from culm_models.chotki.compare import compare
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OBJECT_KEY
from culm_models.chotki.rdx import merge, parse_vector
from culm_models.chotki.rdx.diff import counter_sum, natural_sum

Store = Mapping[bytes, bytes]
_L = ord("L")
_ALL_LETTERS = LETTERS + "COY"
_SUMS = {ord("N"): natural_sum, ord("Z"): counter_sum}


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who must hold the same as all others, and the store as it is; `place`: where it stands."""

    name: str
    kind: str
    place: str
    store: Store
    sessions: int = 0
    made: int = 0


def merged(stores: Sequence[Store]) -> dict[bytes, bytes]:
    """What all stores hold together."""
    keys = {key for store in stores for key in store}
    return {key: merge(chr(key[17]), [store[key] for store in stores if key in store]) for key in keys}


def alike(stores: Sequence[Store]) -> bool:
    """Whether all stores and vectors are the same, L left out."""
    return all(compare(stores[0], store).are_equal for store in stores[1:])


def holder_figures(holder: Holder, wanted: Store) -> HolderFigures:
    """One holder against what it must have."""
    found = compare(holder.store, wanted)
    return HolderFigures(
        name=holder.name,
        kind=holder.kind,
        place=holder.place,
        fields=sum(key[0] == OBJECT_KEY for key in holder.store),
        sources=len(parse_vector(holder.store.get(GLOBAL_VECTOR_KEY, b""))),
        lacking_fields=sum(len(block.fields) for block in found.blocks),
        lacking_vectors=bool(found.vector) + sum(bool(block.vector) for block in found.blocks),
        state_hash=_hash(holder.store, vectors=False),
        vector_hash=_hash(holder.store, vectors=True),
        sessions=holder.sessions,
        made=holder.made,
    )


def type_figures(stores: Sequence[Store], made: Counter[str]) -> list[TypeFigures]:
    """Every type: its fields everywhere, and in how many of them the stores differ."""
    keys = {key for store in stores for key in store if key[0] == OBJECT_KEY}
    figures = []
    for letter in _ALL_LETTERS:
        own = [key for key in keys if key[17] == ord(letter)]
        differing = sum(len({store.get(key) for store in stores}) > 1 for key in own)
        figures.append(TypeFigures(letter, made[letter], len(own), differing))
    return figures


def wrong_sums(before: Store, wanted: Store, added: Counter[bytes]) -> int:
    """Counters that are not what was added to them, over what they were `before`."""
    keys = added.keys() | {key for key in before if key[17] in _SUMS}
    return sum(
        _SUMS[key[17]](wanted.get(key, b"")) != _SUMS[key[17]](before.get(key, b"")) + added[key]
        for key in keys
    )


def _hash(store: Store, *, vectors: bool) -> str:
    digest = hashlib.sha256()
    for key in sorted(store):
        if (key[0] != OBJECT_KEY) is vectors and key[17] != _L:
            value = merge(chr(key[17]), [store[key]])
            digest.update(key + len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()
