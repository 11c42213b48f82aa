"""Errors between a program and documents. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class DocumentsError(TopicsError, code="topics.documents"):
    """Base class of errors between a program and documents."""


class StartByTimeRefused(DocumentsError, code="topics.documents.start_by_time"):
    """A reader of documents cannot start at a time: the topic has the present state of each, not its past."""

    default_hint: ClassVar[str | None] = (
        "read the present documents, and changes from there on; `positions()` of an earlier reader can be "
        "continued from, and `view_at` computes an earlier view of one document"
    )


class DocumentUnknown(DocumentsError, code="topics.documents.unknown"):
    """The topic has no document with this id."""

    default_hint: ClassVar[str | None] = "is the job `documents` running, and has it read the create?"


class ValueMissing(DocumentsError, code="topics.documents.value_missing"):
    """A value is only in `logs`, and is not at the place that the document's record names."""

    default_hint: ClassVar[str | None] = (
        "`logs` was created again, or is that of another deployment: the job `documents`, run with a new "
        "checkpoint, writes the documents again"
    )


class ValueUnread(DocumentsError, code="topics.documents.value_unread"):
    """A value is only in `logs`, and was not read with its document."""

    default_hint: ClassVar[str | None] = "`complete(document)` and `value(field)` of the consumer read it"


class ViewTooLarge(DocumentsError, code="topics.documents.view_size"):
    """A document or a view has more operations, or more bytes of values, than are read at once."""

    default_hint: ClassVar[str | None] = "`value(field)` of the consumer reads the values one by one"


class ScanLimitReached(DocumentsError, code="topics.documents.scan_limit"):
    """So many records of `logs` were read, and the operations of a view are not among them."""

    default_hint: ClassVar[str | None] = (
        "what was read is remembered: another call goes on from there; or give a larger `max_scan_records`"
    )


class DocumentsFileFailed(DocumentsError, code="topics.documents.file"):
    """The local file of documents cannot be used: its folder, its disk, or another program that uses it."""

    default_hint: ClassVar[str | None] = (
        "only one program can use a state folder; a damaged file may be deleted: the next run fills it again"
    )
