"""Errors of operations that exceed a limit of the job `documents`."""

from typing import ClassVar

from culm_streaming.errors import StreamingError


class DocumentFullError(StreamingError):
    """An operation would exceed a limit of its document: heads, waiting operations, or operations in all."""

    code: ClassVar[str] = "documents.document_full"


class FieldNameError(StreamingError):
    """An operation with a name of a field that is too long for any schema."""

    code: ClassVar[str] = "documents.field_name"
