"""The errors of this package. `code` is stable: see `culm_models.errors`; `hint` says what to do."""

from typing import ClassVar

from culm_models.errors import CulmError

UNREACHABLE_HINT = (
    "is Kafka up, is its address right, and do `security.protocol` and the like fit? "
    "The property log_level=4 lets its client say more"
)


class TopicsError(CulmError, code="topics"):
    """Anything that goes wrong between Culm and its topics."""

    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint


class RecordError(TopicsError, code="topics.record"):
    """A key or value that is not the shape that the catalogue promises."""


class KafkaSettingsError(TopicsError, code="topics.settings"):
    """A property that cannot be used, or cannot be said in the Java client's words."""


class KafkaFailure(TopicsError, code="topics.kafka"):
    """The broker refused a request or could not be reached in time; `hint` says what to look at.

    `passes`: a later attempt may succeed although nobody changes anything, as when no broker answers. A wrong
    password does not pass.
    """

    def __init__(self, message: str, *, passes: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.passes = passes


class CommitFailed(KafkaFailure, code="topics.commit"):
    """A group's positions were not committed: entries since the last commit will be handed out again.

    `passes`: the error is one that ends by itself, and it was waited for.
    """

    default_hint: ClassVar[str | None] = (
        "nothing is lost: what was not committed is handed out again, here or at another member of the group"
    )


class TopicMissing(TopicsError, code="topics.missing"):
    """A topic that should exist does not."""

    default_hint: ClassVar[str | None] = "create it with `culm topics create`; is the prefix right?"


class TopicRecreated(TopicsError, code="topics.recreated"):
    """The topic is not the one that was read before: it was deleted and created again."""

    default_hint: ClassVar[str | None] = "begin again with a new group and an empty state directory"


class OriginChanged(TopicsError, code="topics.origin"):
    """Kept offsets belong to another cluster, prefix or creation of a topic; `hint` is the remedy."""


class OffsetOutOfRange(TopicsError, code="topics.offset_out_of_range"):
    """The position to resume from is no longer, or not yet, in the topic: records are lost to this reader."""

    default_hint: ClassVar[str | None] = (
        "begin again with a new group, or set the offsets of this one to where reading shall go on"
    )


class LogGap(TopicsError, code="topics.gap"):
    """A log's sequence number jumps: an entry is missing from the replicated log."""

    default_hint: ClassVar[str | None] = (
        "the job `logs`, run again with a new checkpoint, writes the log anew from `entries`"
    )


class PayloadTooLarge(TopicsError, code="topics.payload_size"):
    """A payload has more bytes than its reader takes."""

    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class PayloadChunkRefused(TopicsError, code="topics.payload_chunk"):
    """A chunk is not one of the payload that is being put together: another size, or another payload."""


class PayloadHashRefused(TopicsError, code="topics.payload_hash"):
    """The chunks of a payload are all there, and together they are another payload."""
