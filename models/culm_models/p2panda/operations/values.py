"""Values of the fields of operations in their usual encoding (p2panda, "operations").

`operation` reads whole operations with the functions here. Single values are read and written where documents
are stored field by field.
"""

from itertools import pairwise
from typing import Any, Final

import cbor2

from culm_models import cbor
from culm_models.bamboo.hashes import HASH_SIZE as _ID_SIZE
from culm_models.cbor.strict import FLAT_MAX_DEPTH, decode_item
from culm_models.p2panda.errors import ValueKindError
from culm_models.p2panda.operations.identifiers import OPERATION_ID_PREFIX as _ID_PREFIX
from culm_models.p2panda.operations.reader import MAX_INTEGER, MIN_INTEGER, Value

_SCALAR_KINDS: Final = frozenset((bool, float, str, bytes))


def encode_value(value: Value) -> bytes:
    """Return a field's value as the bytes that stand for it in an operation."""
    # Most values need none of the checks; arrays, floats and texts with surrogates do.
    if type(value) is bytes or (type(value) is str and value.isascii()):
        return cbor2.dumps(value)
    if type(value) is int and MIN_INTEGER <= value <= MAX_INTEGER:
        return cbor2.dumps(value)
    return cbor.dumps(value)


def decode_value(data: bytes) -> Value:
    """Return the value that `encode_value` has encoded. Raises `ValueKindError`."""
    try:
        fields = {"": decode_item(data, max_depth=FLAT_MAX_DEPTH)}
        is_usual = settle_fields(fields, as_tuples=True)
    except Exception as error:
        # The decoder raises several kinds of exception, and arrays of other items any.
        raise ValueKindError(f"bytes that are no value of a field: {error}") from error
    if not is_usual:
        raise ValueKindError("bytes that are no value of a field")
    value: Value = fields[""]
    return value


def is_view_id(ids: Any) -> bool:
    """Return whether decoded items are a view id: operation ids, sorted and unique. May raise an error."""
    if type(ids) is not list or not _are_hashes(ids):
        return False
    return len(ids) == 1 or (bool(ids) and all(a < b for a, b in pairwise(ids)))


def _are_hashes(ids: list[Any]) -> bool:
    """Whether all are operation ids. For items that are not byte strings, returns False or raises."""
    for operation_id in ids:
        if len(operation_id) != _ID_SIZE or not operation_id.startswith(_ID_PREFIX):
            return False
    return True


def settle_fields(fields: Any, *, as_tuples: bool) -> bool:
    """Return whether names and values are usual ones; with `as_tuples`, turns arrays into tuples in place.

    For arrays of other items, returns False or raises an exception of any kind.
    """
    if type(fields) is not dict:
        return False
    for name, value in fields.items():
        if type(name) is not str:
            return False
        kind = type(value)
        if kind in _SCALAR_KINDS:
            continue
        if kind is int:
            if not MIN_INTEGER <= value <= MAX_INTEGER:
                return False
        elif kind is not list:
            return False
        elif value and type(value[0]) is list:
            for view in value:
                if type(view) is not list or not _are_hashes(view):
                    return False
            if as_tuples:
                fields[name] = tuple(map(tuple, value))
        elif not _are_hashes(value):
            return False
        elif as_tuples:
            fields[name] = tuple(value)
    # Texts compare by code points, which is the order of their UTF-8 bytes; repeats were refused before.
    names = list(fields)
    return names == sorted(names)
