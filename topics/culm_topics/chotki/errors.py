"""What goes wrong between a program and Chotki's objects. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class NameUnknown(TopicsError):
    """A name that the map of global names does not have, and that is no ID either."""

    code: ClassVar[str] = "chotki.name_unknown"


class ObjectUnknown(TopicsError):
    """An object or a class that the state does not hold."""

    code: ClassVar[str] = "chotki.object_unknown"
    default_hint: ClassVar[str | None] = "is the job `chotki` running, and has it merged what was written?"


class FieldUnknown(TopicsError):
    """A field that the object's class does not have."""

    code: ClassVar[str] = "chotki.field_unknown"


class ValueRefused(TopicsError):
    """A value that a field of this type cannot take."""

    code: ClassVar[str] = "chotki.value_type"


class RevisionsExhausted(TopicsError):
    """A field, element or pair that has the highest revision there is: no change is above it."""

    code: ClassVar[str] = "chotki.revision"
    default_hint: ClassVar[str | None] = (
        "no replica can change it any more: give the object another field, or make another object"
    )


class ClassRefused(TopicsError):
    """A class, or a change of one, that replicas would not read as it is meant."""

    code: ClassVar[str] = "chotki.class"


class SourceTaken(TopicsError):
    """The source has a writer already, or is not of this owner."""

    code: ClassVar[str] = "chotki.source_taken"


class SourceUnknown(TopicsError):
    """A source that this deployment has given to nobody."""

    code: ClassVar[str] = "chotki.source_unknown"


class SourceRetired(TopicsError):
    """The source was retired: it is never used again."""

    code: ClassVar[str] = "chotki.source_retired"
    default_hint: ClassVar[str | None] = "take another source, or none: then a free one is allocated"


class WriterBroken(TopicsError):
    """Kafka did not acknowledge a change of this writer, so nobody knows yet what stands in the topic."""

    code: ClassVar[str] = "chotki.writer_broken"
    default_hint: ClassVar[str | None] = (
        "what was acknowledged before stands; open a new writer, which begins behind what the topic holds"
    )


class NameTaken(TopicsError):
    """A global name that something else has already."""

    code: ClassVar[str] = "chotki.name_taken"


class StateFileFailed(TopicsError):
    """The local file of the state cannot be used: its folder, its disk, or another program that uses it."""

    code: ClassVar[str] = "chotki.state_file"
    default_hint: ClassVar[str | None] = (
        "one program uses a state folder at a time; a file that is damaged may be deleted: it is filled anew"
    )


class WriterAhead(TopicsError):
    """So many packets of this writer are not merged yet that it takes no more; the call is undone."""

    code: ClassVar[str] = "chotki.writer_ahead"
    default_hint: ClassVar[str | None] = (
        "is the job `chotki` running? What was written stands: write again later"
    )


class ExportRefused(TopicsError):
    """A folder that an export cannot be written to, or not gone on with."""

    code: ClassVar[str] = "chotki.export"
