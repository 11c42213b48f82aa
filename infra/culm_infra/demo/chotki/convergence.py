"""Convergence: every store and vector against the merge of all, and counters against their increments."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from culm_infra.columns import Columns, of
from culm_infra.demo.kit.report import Listing, SceneFigures
from culm_models.chotki.compare import compare
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OBJECT_KEY
from culm_models.chotki.rdx import merge, parse_vector
from culm_models.chotki.rdx.diff import counter_sum, natural_sum

Store = Mapping[bytes, bytes]
_L = ord("L")
_UNORDERED = "L"
"""The type without a merge: the order of arrival decides, and replicas differ in it by nature."""
_WHAT = {
    "F": "floats",
    "I": "integers",
    "R": "references",
    "S": "strings",
    "T": "terms",
    "N": "sums that grow",
    "Z": "counters",
    "E": "sets",
    "M": "maps",
    "L": "lists",
    "V": "vectors",
    "C": "classes",
    "O": "objects",
    "Y": "replica objects",
}
HOLDERS: Final[Columns] = {
    "who": "name",
    "where": "place",
    "state": of("state_hash", lambda value: value[:8]),
    "vectors": of("vector_hash", lambda value: value[:8]),
    "fields": "fields",
    "wrong": lambda row: row["lacking_fields"] + row["lacking_vectors"],
    "made": lambda row: row["made"] or "–",
}
TYPES: Final[Columns] = {
    "type": "letter",
    "": of("letter", lambda letter: _WHAT[letter]),
    "changes": "made",
    "fields": "fields",
    "alike": lambda row: "–" if row["letter"] == _UNORDERED else row["fields"] - row["differing"],
}
_SUMS = {ord("N"): natural_sum, ord("Z"): counter_sum}


@dataclass(frozen=True, slots=True)
class ComparedStore:
    """A store that must equal all others; `location`: its edge and transport."""

    name: str
    kind: str
    location: str
    store: Store
    sessions: int = 0
    made: int = 0


def merged(stores: Sequence[Store]) -> dict[bytes, bytes]:
    """Merge all stores."""
    keys = {key for store in stores for key in store}
    return {key: merge(chr(key[17]), [store[key] for store in stores if key in store]) for key in keys}


def alike(stores: Sequence[Store]) -> bool:
    """Whether all stores and vectors are equal, except for fields of type L."""
    return all(compare(stores[0], store).are_equal for store in stores[1:])


def check_convergence(
    copies: Sequence[ComparedStore], made: Counter[str], before: Store, added: Counter[bytes]
) -> SceneFigures:
    """Compare every store with the merge of all, and report differences."""
    scene = SceneFigures("chotki", "Replicas at two edges")
    stores = [copy.store for copy in copies]
    wanted = merged(stores)
    holders = [_compared(copy, wanted) for copy in copies]
    types = _types(stores, made)
    scene.listings += [
        Listing("holders", "In the end: what each holds", HOLDERS, holders, words=4),
        Listing("types", "Every type", TYPES, types, words=2),
    ]
    for row in holders:
        name, fields, vectors = row["name"], row["lacking_fields"], row["lacking_vectors"]
        scene.add_missing(fields, f"{name} lacks changes of {fields} fields")
        scene.add_missing(vectors, f"{name} is behind in {vectors} vectors")
    states = {(row["state_hash"], row["vector_hash"]) for row in holders}
    scene.add_problem(len(states) > 1 and not scene.unreached, "the hashes of states and vectors differ")
    for kind in types:
        letter = kind["letter"]
        differing = kind["differing"] if letter != _UNORDERED else 0
        scene.add_missing(differing, f"{differing} fields of type {letter} are not yet the same")
        scene.add_problem(not kind["made"], f"nothing of type {letter} was changed")
    scene.equal("counters with a wrong sum", wrong_sums(before, wanted, added), 0)
    return scene


def _compared(copy: ComparedStore, wanted: Store) -> dict[str, Any]:
    """Compare one store with the merge; the hashes leave lists out."""
    comparison = compare(copy.store, wanted)
    return {
        "name": copy.name,
        "kind": copy.kind,
        "place": copy.location,
        "fields": sum(key[0] == OBJECT_KEY for key in copy.store),
        "sources": len(parse_vector(copy.store.get(GLOBAL_VECTOR_KEY, b""))),
        "lacking_fields": sum(len(block.fields) for block in comparison.blocks),
        "lacking_vectors": bool(comparison.vector) + sum(bool(block.vector) for block in comparison.blocks),
        "state_hash": _hash(copy.store, vectors=False),
        "vector_hash": _hash(copy.store, vectors=True),
        "sessions": copy.sessions,
        "made": copy.made,
    }


def _types(stores: Sequence[Store], made: Counter[str]) -> list[dict[str, Any]]:
    """Return for every type its changes, its fields in all stores, and the number of differing fields."""
    keys = {key for store in stores for key in store if key[0] == OBJECT_KEY}
    rows = []
    for letter in _WHAT:
        own = [key for key in keys if key[17] == ord(letter)]
        differing = sum(len({store.get(key) for store in stores}) > 1 for key in own)
        rows.append({"letter": letter, "made": made[letter], "fields": len(own), "differing": differing})
    return rows


def wrong_sums(before: Store, wanted: Store, added: Counter[bytes]) -> int:
    """Count the counters whose value is not that of `before` plus the increments."""
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
