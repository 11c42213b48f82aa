"""The errors of this package. `code` is stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_models.errors import CulmError

UNREACHABLE_HINT = (
    "is Kafka up, is its address right, and do `security.protocol` and the like fit? "
    "The property log_level=4 lets its client say more"
)


class TopicsError(CulmError):
    """Anything that goes wrong between Culm and its topics."""

    code: ClassVar[str] = "topics"


class RecordError(TopicsError):
    """A key or value that is not the shape that the catalogue promises."""

    code: ClassVar[str] = "topics.record"


class KafkaSettingsError(TopicsError):
    """A property that cannot be used, or cannot be said in the Java client's words."""

    code: ClassVar[str] = "topics.settings"


class KafkaFailure(TopicsError):
    """The broker refused a request or could not be reached in time; `hint` says what to look at."""

    code: ClassVar[str] = "topics.kafka"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class TopicMissing(TopicsError):
    """A topic that should exist does not."""

    code: ClassVar[str] = "topics.missing"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class TopicRecreated(TopicsError):
    """The topic is not the one that was read before: it was deleted and created again."""

    code: ClassVar[str] = "topics.recreated"


class OriginChanged(TopicsError):
    """Kept offsets belong to another cluster, prefix or creation of a topic; `hint` is the remedy."""

    code: ClassVar[str] = "topics.origin"

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class OffsetOutOfRange(TopicsError):
    """The position to resume from is no longer, or not yet, in the topic: records are lost to this reader."""

    code: ClassVar[str] = "topics.offset_out_of_range"


class LogGap(TopicsError):
    """A log's sequence number jumps: an entry is missing from the replicated log."""

    code: ClassVar[str] = "topics.gap"
