"""CARv2: a CARv1 between a header and an index, neither of which is trusted or needed."""

from __future__ import annotations

import struct
from typing import Final

from culm_models.dag.errors import CarHeaderMalformed

V2_PRAGMA: Final = bytes.fromhex("0aa16776657273696f6e02")
V2_HEAD_SIZE: Final = len(V2_PRAGMA) + 40
"""The pragma, and the characteristics (16 bytes), data offset, data size and index offset (8 bytes each)."""
_DATA: Final = struct.Struct("<QQ")
_DATA_AT: Final = len(V2_PRAGMA) + 16


def find_payload(head: bytes, file_size: int) -> tuple[int, int]:
    """Where the CARv1 in a file begins and before where it ends, by the first `V2_HEAD_SIZE` bytes.

    A file of another version is all CARv1. Raises `CarHeaderMalformed`.
    """
    if not head.startswith(V2_PRAGMA):
        return 0, file_size
    if len(head) < V2_HEAD_SIZE:
        raise CarHeaderMalformed("the bytes end in the header of CARv2")
    offset, size = _DATA.unpack_from(head, _DATA_AT)
    if offset < V2_HEAD_SIZE or offset + size > file_size:
        raise CarHeaderMalformed("a CARv2 whose data is not in the file: it may be cut short or unfinished")
    return offset, offset + size
