"""The errors of this package. `code` is stable: see `culm_models.errors`; `hint` says what to do."""

from typing import ClassVar

from culm_models.errors import CulmError

UNREACHABLE_HINT = (
    "is Kafka up, is its address right, and do `security.protocol` and the like fit? "
    "The property log_level=4 lets its client say more"
)


class TopicsError(CulmError):
    """Anything that goes wrong between Culm and its topics."""

    code: ClassVar[str] = "topics"
    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint


class RecordError(TopicsError):
    """A key or value that is not the shape that the catalogue promises."""

    code: ClassVar[str] = "topics.record"


class KafkaSettingsError(TopicsError):
    """A property that cannot be used, or cannot be said in the Java client's words."""

    code: ClassVar[str] = "topics.settings"


class KafkaFailure(TopicsError):
    """The broker refused a request or could not be reached in time; `hint` says what to look at.

    `passes`: a later attempt may succeed although nobody changes anything, as when no broker answers. A wrong
    password does not pass.
    """

    code: ClassVar[str] = "topics.kafka"

    def __init__(self, message: str, *, passes: bool = True, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.passes = passes


class CommitFailed(KafkaFailure):
    """A group's positions were not committed: entries since the last commit will be handed out again.

    `passes`: the error is one that ends by itself, and it was waited for.
    """

    code: ClassVar[str] = "topics.commit"
    default_hint: ClassVar[str | None] = (
        "nothing is lost: what was not committed is handed out again, here or at another member of the group"
    )


class TopicMissing(TopicsError):
    """A topic that should exist does not."""

    code: ClassVar[str] = "topics.missing"
    default_hint: ClassVar[str | None] = "create it with `culm topics create`; is the prefix right?"


class TopicRecreated(TopicsError):
    """The topic is not the one that was read before: it was deleted and created again."""

    code: ClassVar[str] = "topics.recreated"
    default_hint: ClassVar[str | None] = "begin again with a new group and an empty state directory"


class OriginChanged(TopicsError):
    """Kept offsets belong to another cluster, prefix or creation of a topic; `hint` is the remedy."""

    code: ClassVar[str] = "topics.origin"


class OffsetOutOfRange(TopicsError):
    """The position to resume from is no longer, or not yet, in the topic: records are lost to this reader."""

    code: ClassVar[str] = "topics.offset_out_of_range"
    default_hint: ClassVar[str | None] = (
        "begin again with a new group, or set the offsets of this one to where reading shall go on"
    )


class LogGap(TopicsError):
    """A log's sequence number jumps: an entry is missing from the replicated log."""

    code: ClassVar[str] = "topics.gap"
    default_hint: ClassVar[str | None] = (
        "the job `logs`, run again with a new checkpoint, writes the log anew from `entries`"
    )


class PayloadTooLarge(TopicsError):
    """A payload has more bytes than its reader takes."""

    code: ClassVar[str] = "topics.payload_size"
    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class PayloadChunkRefused(TopicsError):
    """A chunk is not one of the payload that is being put together: another size, or another payload."""

    code: ClassVar[str] = "topics.payload_chunk"


class PayloadHashRefused(TopicsError):
    """The chunks of a payload are all there, and together they are another payload."""

    code: ClassVar[str] = "topics.payload_hash"
