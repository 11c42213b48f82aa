"""Columns of a class's table: Arrow's types, names, and conversion of values to Arrow (reference 1.4).

| type | Arrow |
|---|---|
| F I S | double, int64, string |
| R T | string: the text of the ID, the word |
| N Z | uint64, int64: the sums |
| E | struct of `present` and `removed`, lists of elements |
| M | struct of `present`, a list of `key` and `value`, and `removed`, a list of keys |
| L | a list of elements |
| V | a map of sources (hex) to progress |

Elements of E, M and L have any type: an element is a struct of five, `f i r s t`, one of them not null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from culm_models.chotki.ids import Id
from culm_topics.chotki.objects import ChotkiClass, ChotkiObject, Place, place_of
from culm_topics.chotki.values import (
    Elements,
    Pairs,
    Scalar,
    Term,
    Unreadable,
    Value,
    plain_value,
)

ID_COLUMN: Final = "_id"
OTHERS_COLUMN: Final = "_others"
EPOCH_COLUMN: Final = "epoch"
"""The name of the folders' key, which readers treat as a column."""
_NAME_MAX: Final = 120

_ELEMENT: Final = pa.struct(
    [
        ("f", pa.float64()),
        ("i", pa.int64()),
        ("r", pa.string()),
        ("s", pa.string()),
        ("t", pa.string()),
    ]
)
_ELEMENTS: Final = pa.list_(_ELEMENT)
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "F": pa.float64(),
    "I": pa.int64(),
    "R": pa.string(),
    "S": pa.string(),
    "T": pa.string(),
    "N": pa.uint64(),
    "Z": pa.int64(),
    "E": pa.struct([("present", _ELEMENTS), ("removed", _ELEMENTS)]),
    "M": pa.struct(
        [
            ("present", pa.list_(pa.struct([("key", _ELEMENT), ("value", _ELEMENT)]))),
            ("removed", _ELEMENTS),
        ]
    ),
    "L": _ELEMENTS,
    "V": pa.map_(pa.string(), pa.int64()),
}


class TableColumn(NamedTuple):
    """A column, by the number and the type of its field, which a rename does not change.

    `column` is its permanent name in the files; `name` is the present name of the field in the class.
    """

    number: int
    letter: str
    column: str
    name: str

    @property
    def place(self) -> Place:
        """The position of the field in an object."""
        return self.number, self.letter


def columns_of(class_: ChotkiClass | None, former: Collection[TableColumn]) -> list[TableColumn]:
    """Return the columns of a class: existing columns of its table, then those of new fields."""
    fields = {} if class_ is None else class_.fields
    names: dict[Place, str] = {}
    if class_ is not None:
        for name, field in fields.items():
            names.setdefault(place_of(class_.id, field), name)
    columns = [column._replace(name=names.pop(column.place, column.name)) for column in former]
    taken = {ID_COLUMN, OTHERS_COLUMN, EPOCH_COLUMN, *(column.column.casefold() for column in former)}
    for (number, letter), name in sorted(names.items()):
        if letter in _TYPES:
            column_name = _column_name(name, number, letter, taken)
            taken.add(column_name.casefold())
            columns.append(TableColumn(number, letter, column_name, name))
    return columns


def schema_of(class_id: Id, class_: ChotkiClass | None, columns: Iterable[TableColumn]) -> pa.Schema:
    """Return the schema of a table's files. Each field has its own ID, for readers that use field IDs."""
    fields = [
        pa.field(column.column, _TYPES[column.letter], metadata=_field_metadata(column)) for column in columns
    ]
    name = str(class_id) if class_ is None else class_.name
    return pa.schema(
        [
            pa.field(ID_COLUMN, pa.string(), nullable=False, metadata={"PARQUET:field_id": "1"}),
            *fields,
            pa.field(OTHERS_COLUMN, pa.map_(pa.string(), pa.string()), metadata={"PARQUET:field_id": "2"}),
        ],
        metadata={"culm.class": str(class_id), "culm.class_name": name},
    )


def row_of(object_: ChotkiObject, columns: Iterable[TableColumn]) -> dict[str, Any]:
    """Return an object as a row.

    Values without a column, or unreadable ones, are JSON in `_others`, by number and type.
    """
    places = {} if object_.class_ is None else _names_by_place(object_.class_)
    others = dict(object_.others)
    row: dict[str, Any] = {ID_COLUMN: str(object_.id)}
    for column in columns:
        name = places.get(column.place)
        value = others.pop(column.place, None) if name is None else object_.fields[name]
        if isinstance(value, Unreadable):
            others[column.place] = value
        elif value is not None:
            cell = _CELLS.get(column.letter)
            row[column.column] = value if cell is None else cell(value)
    row[OTHERS_COLUMN] = [
        (f"{number:x}{letter}", json.dumps(plain_value(value), ensure_ascii=False))
        for (number, letter), value in sorted(others.items())
    ]
    return row


def _names_by_place(class_: ChotkiClass) -> dict[Place, str]:
    return {place_of(class_.id, field): name for name, field in class_.fields.items()}


def _field_metadata(column: TableColumn) -> dict[str, str]:
    # Numbers have at most 12 bits: the ID fits into 32 bits.
    return {"PARQUET:field_id": str(column.number << 8 | ord(column.letter)), "culm.name": column.name}


def _column_name(name: str, number: int, letter: str, taken: Collection[str]) -> str:
    """Return a column name, if possible one that SQL accepts without quotes; unique ignoring case."""
    column = "".join(char if char.isalnum() or char == "_" else "_" for char in name)[:_NAME_MAX]
    if column and not column.startswith("_") and column.casefold() not in taken:
        return column
    column = f"{column}_{number:x}{letter}".lstrip("_")
    while column.casefold() in taken:
        column += "_"
    return column


def _utf8(value: object) -> str:
    """Return a text for Arrow: bytes that are not UTF-8 are replaced."""
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _element(value: Scalar) -> dict[str, Any]:
    match value:
        case Id():
            return {"r": str(value)}
        case Term():
            return {"t": _utf8(value.text)}
        case str():
            return {"s": _utf8(value)}
        case float():
            return {"f": value}
        case _:
            return {"i": value}


def _elements(value: Value) -> dict[str, Any]:
    assert isinstance(value, Elements), "an E that parses is a set"
    return {"present": [*map(_element, value)], "removed": [*map(_element, value.removed)]}


def _pairs(value: Value) -> dict[str, Any]:
    assert isinstance(value, Pairs), "an M that parses is a mapping"
    present = [{"key": _element(key), "value": _element(element)} for key, element in value.items()]
    return {"present": present, "removed": [*map(_element, value.removed)]}


def _list(value: Value) -> list[dict[str, Any]]:
    assert isinstance(value, tuple), "an L that parses is a tuple"
    return [*map(_element, value)]


def _vector(value: Mapping[int, int]) -> list[tuple[str, int]]:
    return [(f"{src:x}", pro) for src, pro in value.items()]


_CELLS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "R": str,
    "S": _utf8,
    "T": _utf8,
    "E": _elements,
    "M": _pairs,
    "L": _list,
    "V": _vector,
}
