"""How the parts of a channel are kept over a restart: a CBOR array whose first item is a format number.

The bytes are this side's own, so only their outline is checked, not each value as of foreign ones: a driver
of many channels reads and writes little else. What does not fit is a `SnapshotError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cbor2

from culm_models.sds.errors import SnapshotError
from culm_models.sds.wire.errors import BloomSnapshotError


def pack(format_number: int, *items: Any) -> bytes:
    """The bytes of a part: equal for equal items."""
    return cbor2.dumps([format_number, *items])


@contextmanager
def unpacked(data: bytes, format_number: int, count: int, *, appended: int = 0) -> Iterator[list[Any]]:
    """The items that `pack` wrote; what is wrong with them inside of the block is a SnapshotError.

    There are `count` of them and as many `appended` ones, which are None in what an earlier version wrote.
    """
    try:
        value = cbor2.loads(data)
        if (
            not isinstance(value, list)
            or len(value) not in (count + 1, count + 1 + appended)
            or value[0] != format_number
        ):
            raise SnapshotError(f"no part of a channel in format {format_number}")
        yield value[1:] + [None] * (count + 1 + appended - len(value))
    except (
        BloomSnapshotError,
        cbor2.CBORError,
        ArithmeticError,
        TypeError,
        ValueError,
        LookupError,
    ) as error:
        raise SnapshotError(f"no part of a channel: {error}") from error
