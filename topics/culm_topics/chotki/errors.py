"""Errors between a program and Chotki's objects. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class NameUnknown(TopicsError, code="chotki.name_unknown"):
    """A name is not in the map of global names, and is not an ID either."""


class ObjectUnknown(TopicsError, code="chotki.object_unknown"):
    """The state does not contain this object or class."""

    default_hint: ClassVar[str | None] = "is the job `chotki` running, and has it merged what was written?"


class FieldUnknown(TopicsError, code="chotki.field_unknown"):
    """The object's class does not have this field."""


class ValueRefused(TopicsError, code="chotki.value_type"):
    """A field of this type cannot hold the value."""


class RevisionsExhausted(TopicsError, code="chotki.revision"):
    """A field, element or pair has the highest possible revision: no change can exceed it."""

    default_hint: ClassVar[str | None] = (
        "no replica can change it any more: give the object another field, or make another object"
    )


class ClassRefused(TopicsError, code="chotki.class"):
    """A class, or a change of one, that replicas would read differently."""


class SourceTaken(TopicsError, code="chotki.source_taken"):
    """The source already has a writer, or belongs to another owner."""


class SourceUnknown(TopicsError, code="chotki.source_unknown"):
    """A source that this deployment has not assigned."""


class SourceRetired(TopicsError, code="chotki.source_retired"):
    """The source was retired: it is never used again."""

    default_hint: ClassVar[str | None] = "take another source, or none: then a free one is allocated"


class WriterBroken(TopicsError, code="chotki.writer_broken"):
    """Kafka did not acknowledge a change of this writer, so the contents of the topic are unknown."""

    default_hint: ClassVar[str | None] = (
        "acknowledged records are kept; open a new writer, which starts after the end of the topic"
    )


class NameTaken(TopicsError, code="chotki.name_taken"):
    """A global name is already in use."""


class StateFileFailed(TopicsError, code="chotki.state_file"):
    """The local file of the state cannot be used: its folder, its disk, or another program that uses it."""

    default_hint: ClassVar[str | None] = (
        "only one program can use a state folder; a damaged file may be deleted: the next run fills it again"
    )


class WriterAhead(TopicsError, code="chotki.writer_ahead"):
    """Too many packets of this writer are not merged yet; the call is undone."""

    default_hint: ClassVar[str | None] = (
        "is the job `chotki` running? Written records are kept: write again later"
    )


class ExportRefused(TopicsError, code="chotki.export"):
    """An export cannot be written to a folder, or cannot be continued there."""
