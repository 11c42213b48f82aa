"""`sds.events`: what happened in a channel, numbered, so that every reader counts each event once.

The number is the channel's own, from 1 without holes, and the job gives an event the same number and bytes
when a batch runs again: a reader drops what is not above the last number it has (`culm_topics.sds.events`).
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

from culm_topics.records.shape import (
    FORMAT,
    check_size,
    choice_size,
    dump,
    load_array,
    optional_bytes_size,
    refuse_item,
    require,
    uint_size,
)
from culm_topics.sds.records.shape import (
    Details,
    details_size,
    id_size,
    optional_id_size,
    packed_details,
    read_details,
    require_id,
)

SdsEventKind = Literal[
    "joined",
    "left",
    "sent",
    "received",
    "delivered",
    "missing",
    "lost",
    "possibly_acknowledged",
    "acknowledged",
    "gave_up",
    "sync_sent",
    "sync_received",
    "repair_requested",
    "repair_answered",
    "rejected",
]
"""`joined` and `left` are the job's own: a participant is, or is no longer, hosted. The others are those of
`culm_models.sds.events`, without what concerns a clock apart from the records' times."""

EVENT_KINDS: tuple[SdsEventKind, ...] = get_args(SdsEventKind)
_NAME = "sds.events"


@dataclass(frozen=True, slots=True)
class SdsEventRecord:
    """Value of `sds.events`; its key is the channel's.

    `participant_id` is the hosted participant whom it concerns, none where it concerns the whole channel (a
    delivery does). `message_id` is empty where no message can be told. `time_ms` is the channel's clock: when
    the input's record was taken, or the timer was due. `details` are the further fields of the event under
    their names in `culm_models.sds.events`, of `missing` the ids alone; what is None is left out. Besides,
    what a command brought about has its `token`. `content` is that of a sent or delivered message.
    """

    number: int
    kind: SdsEventKind
    participant_id: str | None
    message_id: str
    time_ms: int
    details: Details = field(default_factory=dict)
    content: bytes | None = None

    def encode(self) -> bytes:
        """`[1, number, kind, participant_id, message_id, time_ms, {detail: value}, content]`."""
        require(self.number >= 1, _NAME, "number is below 1")
        require_id(_NAME, "participant_id", self.participant_id)
        require_id(_NAME, "message_id", self.message_id, empty=True)
        return dump(
            FORMAT,
            self.number,
            self.kind,
            self.participant_id,
            self.message_id,
            self.time_ms,
            packed_details(self.details),
            self.content,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SdsEventRecord":
        """The record in `value`; `RecordError` says what is wrong with it. Details are not looked at."""
        _, number, kind, participant_id, message_id, time_ms, details, content = load_array(value, _NAME, 8)
        size = (
            2
            + uint_size(_NAME, "number", number)
            + choice_size(_NAME, "kind", kind, EVENT_KINDS)
            + optional_id_size(_NAME, "participant_id", participant_id)
            + id_size(_NAME, "message_id", message_id, empty=True)
            + uint_size(_NAME, "time_ms", time_ms)
            + details_size(_NAME, "details", details)
            + optional_bytes_size(_NAME, "content", content)
        )
        if number == 0:
            refuse_item(_NAME, "number", number, "at least 1")
        check_size(value, size, _NAME)
        return SdsEventRecord(
            number, kind, participant_id, message_id, time_ms, read_details(details), content
        )
