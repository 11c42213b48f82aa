"""The errors of this package. Each `code` is stable (see `culm_models.errors`); `hint` names the remedy."""

from typing import ClassVar

from culm_models.errors import CulmError

UNREACHABLE_HINT = (
    "is Kafka up, is its address right, and do `security.protocol` and the like fit? "
    "The property log_level=4 lets its client say more"
)


class TopicsError(CulmError, code="topics"):
    """Base of the errors between Culm and its topics."""

    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint


class RecordError(TopicsError, code="topics.record"):
    """A key or value does not have the form that the catalogue specifies."""


class KafkaSettingsError(TopicsError, code="topics.settings"):
    """A property cannot be used, or has no equivalent in the Java client."""


class KafkaFailure(TopicsError, code="topics.kafka"):
    """The broker refused a request or could not be reached in time; `hint` says what to check.

    `passes` is true if a later attempt may succeed without any change, for example when no broker answers. It
    is false for a wrong password.
    """

    def __init__(self, message: str, *, passes: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.passes = passes


class CommitFailed(KafkaFailure, code="topics.commit"):
    """A group's positions were not committed: entries since the last commit will be handed out again.

    `passes` is true if the error is temporary; the commit was then retried until its timeout.
    """

    default_hint: ClassVar[str | None] = (
        "nothing is lost: what was not committed is handed out again, here or at another member of the group"
    )


class TopicMissing(TopicsError, code="topics.missing"):
    """A topic that should exist does not."""

    default_hint: ClassVar[str | None] = "create it with `culm topics create`; is the prefix right?"


class TopicRecreated(TopicsError, code="topics.recreated"):
    """The topic was deleted and created again since it was last read."""

    default_hint: ClassVar[str | None] = "begin again with a new group and an empty state directory"


class OriginChanged(TopicsError, code="topics.origin"):
    """Stored offsets belong to another cluster, prefix or creation of a topic; `hint` names the remedy."""


class OffsetOutOfRange(TopicsError, code="topics.offset_out_of_range"):
    """The position to resume from is no longer, or not yet, in the topic: this reader has lost records."""

    default_hint: ClassVar[str | None] = (
        "start with a new group, or set the offsets of this one to the position from which to read"
    )


class LogGap(TopicsError, code="topics.gap"):
    """A log's sequence number jumps: an entry is missing in the replicated log."""

    default_hint: ClassVar[str | None] = (
        "the job `logs`, run with a new checkpoint, writes the log again from `entries`"
    )


class PayloadTooLarge(TopicsError, code="topics.payload_size"):
    """A payload is larger than its reader's limit."""

    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class PayloadChunkRefused(TopicsError, code="topics.payload_chunk"):
    """The chunks or parts of a payload do not have the expected size, or the payload was given up."""


class PayloadHashRefused(TopicsError, code="topics.payload_hash"):
    """All chunks of a payload are present, but their hash is not the payload's."""
