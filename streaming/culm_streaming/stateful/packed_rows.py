"""Hundreds of rows in one record: moving them one by one would cost more than checking them."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self, get_args, get_type_hints

import cbor2


@dataclass(slots=True)
class PackedRows:
    """Rows by kind: each field of a subclass is a list of named or plain tuples."""

    def pack(self) -> bytes:
        """Return the rows as bytes."""
        return cbor2.dumps([getattr(self, kind.name) for kind in fields(self)])

    @classmethod
    def unpack(cls, packed: Iterable[bytes]) -> Self:
        """Return the rows of packed records, combined."""
        rows = cls()
        kinds = [getattr(get_args(kind)[0], "_make", tuple) for kind in get_type_hints(cls).values()]
        for blob in packed:
            for field, make, column in zip(fields(cls), kinds, cbor2.loads(blob), strict=True):
                getattr(rows, field.name).extend(map(make, column))
        return rows

    def __bool__(self) -> bool:
        return any(getattr(self, kind.name) for kind in fields(self))
