"""Blobs: files as a document of the schema `blob_v1`, with their bytes in documents of `blob_piece_v1`."""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.p2panda.documents.document import DocumentView
from culm_models.p2panda.documents.errors import (
    BlobIncompleteError,
    BlobLengthError,
    NotABlobError,
)
from culm_models.p2panda.documents.schemas import ReadView

BLOB = "blob_v1"
BLOB_PIECE = "blob_piece_v1"


def read_blob(blob: DocumentView, read: ReadView) -> Iterator[bytes]:
    """Return the bytes of a blob, piece after piece; only one piece is in memory at a time.

    Raises `NotABlobError` at once, and after the bytes that can be had `BlobIncompleteError` for a piece that
    is not held, or `BlobLengthError` if the pieces do not have the length that the blob states.
    """
    length, pieces = (_value(blob, name) for name in ("length", "pieces"))
    if blob.schema_id != BLOB or not isinstance(length, int) or not isinstance(pieces, tuple):
        raise NotABlobError(f"{blob.document_id.hex()} is deleted, or no {BLOB} with a length and pieces")
    return _pieces(length, pieces, read)


def _pieces(length: int, pieces: tuple[object, ...], read: ReadView) -> Iterator[bytes]:
    missing_bytes = length
    for number, view_id in enumerate(pieces, 1):
        piece = read(view_id) if isinstance(view_id, tuple) and view_id else None
        data = _value(piece, "data") if piece is not None and piece.schema_id == BLOB_PIECE else None
        if not isinstance(data, bytes):
            raise BlobIncompleteError(f"piece {number} of {len(pieces)} is not here")
        if len(data) > missing_bytes:
            raise BlobLengthError(f"the pieces have more than the {length} bytes that the blob states")
        missing_bytes -= len(data)
        yield data
    if missing_bytes:
        raise BlobLengthError(f"the pieces have {missing_bytes} bytes less than the {length} of the blob")


def _value(view: DocumentView, name: str) -> object:
    field = (view.fields or {}).get(name)
    return None if field is None else field.value
