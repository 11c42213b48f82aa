"""`sds.events`: what happened in a channel, numbered, so that every reader counts each event once.

The number is the channel's own, from 1 without holes, and the job gives an event the same number and bytes
when a batch runs again: a reader drops what is not above the last number it has (`culm_topics.sds.events`).
"""

from dataclasses import field
from typing import Annotated, Literal

from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import between, rule
from culm_topics.sds.records.shape import SenderId, SomeDetails, SomeId

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


@record("sds.events", "what happened in a channel. Key: channel id in UTF-8.")
class SdsEventRecord(Record):
    """Value of `sds.events`; its key is the channel's.

    `participant_id` is the hosted participant whom it concerns, none where it concerns the whole channel (a
    delivery does). `message_id` is empty where no message can be told. `time_ms` is the channel's clock: when
    the input's record was taken, or the timer was due. `details` are the further fields of the event under
    their names in `culm_models.sds.events`, of `missing` the ids alone; what is None is left out. Besides,
    what a command brought about has its `token`. `content` is that of a sent or delivered message.
    """

    number: Annotated[int, between(1), "of the channel, without holes; a repeated event has the same"]
    kind: Annotated[SdsEventKind, rule("event-kind")]
    participant_id: Annotated[
        SomeId | None, "the hosted participant whom it concerns; null: the whole channel"
    ]
    message_id: Annotated[SenderId, "empty when none can be told"]
    time_ms: Annotated[int, "by the channel's clock"]
    details: Annotated[SomeDetails, "the event's further fields, by name"] = field(default_factory=dict)
    content: Annotated[bytes | None, "of a sent or delivered message"] = None
