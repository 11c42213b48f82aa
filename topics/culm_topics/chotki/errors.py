"""What goes wrong between a program and Chotki's objects. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class NameUnknown(TopicsError, code="chotki.name_unknown"):
    """A name that the map of global names does not have, and that is no ID either."""


class ObjectUnknown(TopicsError, code="chotki.object_unknown"):
    """An object or a class that the state does not hold."""

    default_hint: ClassVar[str | None] = "is the job `chotki` running, and has it merged what was written?"


class FieldUnknown(TopicsError, code="chotki.field_unknown"):
    """A field that the object's class does not have."""


class ValueRefused(TopicsError, code="chotki.value_type"):
    """A value that a field of this type cannot take."""


class RevisionsExhausted(TopicsError, code="chotki.revision"):
    """A field, element or pair that has the highest revision there is: no change is above it."""

    default_hint: ClassVar[str | None] = (
        "no replica can change it any more: give the object another field, or make another object"
    )


class ClassRefused(TopicsError, code="chotki.class"):
    """A class, or a change of one, that replicas would not read as it is meant."""


class SourceTaken(TopicsError, code="chotki.source_taken"):
    """The source has a writer already, or is not of this owner."""


class SourceUnknown(TopicsError, code="chotki.source_unknown"):
    """A source that this deployment has given to nobody."""


class SourceRetired(TopicsError, code="chotki.source_retired"):
    """The source was retired: it is never used again."""

    default_hint: ClassVar[str | None] = "take another source, or none: then a free one is allocated"


class WriterBroken(TopicsError, code="chotki.writer_broken"):
    """Kafka did not acknowledge a change of this writer, so nobody knows yet what stands in the topic."""

    default_hint: ClassVar[str | None] = (
        "what was acknowledged before stands; open a new writer, which begins behind what the topic holds"
    )


class NameTaken(TopicsError, code="chotki.name_taken"):
    """A global name that something else has already."""


class StateFileFailed(TopicsError, code="chotki.state_file"):
    """The local file of the state cannot be used: its folder, its disk, or another program that uses it."""

    default_hint: ClassVar[str | None] = (
        "one program uses a state folder at a time; a file that is damaged may be deleted: it is filled anew"
    )


class WriterAhead(TopicsError, code="chotki.writer_ahead"):
    """So many packets of this writer are not merged yet that it takes no more; the call is undone."""

    default_hint: ClassVar[str | None] = (
        "is the job `chotki` running? What was written stands: write again later"
    )


class ExportRefused(TopicsError, code="chotki.export"):
    """A folder that an export cannot be written to, or not gone on with."""
