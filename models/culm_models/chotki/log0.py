"""The initial content of every replica (reference 2.6): the common objects and its own object.

Source 0 made the common objects, and they are the same bytes everywhere: 0-1 is the class of 0-2, whose field
0-2-1 maps global names to IDs, and 0-3 is the class of the objects in which replicas describe themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.rdx.first import write_element, write_first
from culm_models.chotki.rdx.version_vector import write_vector

SYSTEM_SOURCE: Final = 0
NAMES_ID: Final = Id.make(0, 2, 1)
"""The id of the map of global names."""
REPLICA_CLASS_ID: Final = Id.make(0, 3)
REPLICA_CLASS: Final = (ClassField(0, "S", "Name"), ClassField(1, "V", "Ack"), ClassField(2, "S", "Addr"))
"""The fields in which a replica describes itself; in its own object they have the numbers 1 to 3."""
OWN_FIELDS: Final = 3


def names_map(names: Iterable[tuple[str, Id]]) -> bytes:
    """Return an unstamped M of terms to references; ``names`` must be in order."""
    return b"".join(
        write_element(ord("T"), 0, 0, name.encode()) + write_element(ord("R"), 0, 0, id.zip())
        for name, id in names
    )


COMMON_FIELDS: Final = {
    object_key(Id(0, 0), "Y"): b"",
    object_key(Id.make(0, 1), "C"): write_class([ClassField(0, "M", "Names")]),
    object_key(Id.make(0, 2), "O"): Id.make(0, 1).zip(),
    object_key(NAMES_ID, "M"): names_map(
        [("0", Id(0, 0)), ("Global", Id.make(0, 2)), ("Names", NAMES_ID), ("Nodes", Id.make(0, 2, 2))]
    ),
    object_key(REPLICA_CLASS_ID, "C"): write_class(REPLICA_CLASS),
}
"""The common objects, as store key to value."""


def own_object(src: int, name: str) -> dict[bytes, bytes]:
    """Return the object that names a replica, as store key to value; its other fields are empty."""
    return {
        object_key(Id(src, 0), "Y"): b"",
        object_key(Id.make(src, 0, 1), "S"): write_first(0, src, name.encode()),
        object_key(Id.make(src, 0, 2), "V"): b"",
        object_key(Id.make(src, 0, 3), "S"): write_first(0, src, b""),
    }


def common_store() -> dict[bytes, bytes]:
    """Return a store of the common objects and their vectors, for a listener that is not a replica yet."""
    vector = write_vector({SYSTEM_SOURCE: REPLICA_CLASS_ID.pro})
    return {**COMMON_FIELDS, GLOBAL_VECTOR_KEY: vector, vector_key(Id(0, 0)): vector}


def fresh_store(src: int, name: str = "") -> dict[bytes, bytes]:
    """Return the store, key to value in key order, of a replica of source ``src`` that was never used."""
    assert src != SYSTEM_SOURCE, "source 0 is the system's"
    own = Id.make(src, 0, OWN_FIELDS)
    store = {**common_store(), **own_object(src, name)}
    store[GLOBAL_VECTOR_KEY] = write_vector({SYSTEM_SOURCE: REPLICA_CLASS_ID.pro, src: own.pro})
    store[vector_key(own)] = write_vector({src: own.pro})
    return dict(sorted(store.items()))
