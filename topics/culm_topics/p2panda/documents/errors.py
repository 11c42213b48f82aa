"""Errors between a program and documents. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class DocumentsError(TopicsError, code="topics.documents"):
    """Base class of errors between a program and documents."""


class StartByTimeRefused(DocumentsError, code="topics.documents.start_by_time"):
    """A reader of documents cannot start at a time, because the topic has only their present state."""

    default_hint: ClassVar[str | None] = (
        "read the present documents and then their changes; `since` continues from `positions()` of an "
        "earlier reader, and `view_at` computes an earlier view of one document"
    )


class DocumentUnknown(DocumentsError, code="topics.documents.unknown"):
    """The topic has no document with this id."""

    default_hint: ClassVar[str | None] = "is the job `documents` running, and has it read the create?"


class ValueMissing(DocumentsError, code="topics.documents.value_missing"):
    """A value is not at the place in `logs` that the document's record names."""

    default_hint: ClassVar[str | None] = (
        "`logs` was created again or belongs to another deployment: run the job `documents` with a new "
        "checkpoint, so that it writes the documents again"
    )


class ValueUnread(DocumentsError, code="topics.documents.value_unread"):
    """A value is only in `logs`, and was not read with its document."""

    default_hint: ClassVar[str | None] = "`complete(document)` and `value(field)` of the consumer read it"


class ViewTooLarge(DocumentsError, code="topics.documents.view_size"):
    """A document or a view has more operations, or more bytes of values, than are read at once."""

    default_hint: ClassVar[str | None] = "`value(field)` of the consumer reads the values one by one"


class ScanLimitReached(DocumentsError, code="topics.documents.scan_limit"):
    """A scan of `logs` has read `max_scan_records` without finding all operations of a view."""

    default_hint: ClassVar[str | None] = (
        "another call continues the scan where this one ended; a larger `max_scan_records` reads more at once"
    )


class DocumentsFileFailed(DocumentsError, code="topics.documents.file"):
    """The local file of documents cannot be used: its folder, its disk, or another program that uses it."""

    default_hint: ClassVar[str | None] = (
        "only one program can use a state folder; a damaged file may be deleted: the next run fills it again"
    )
