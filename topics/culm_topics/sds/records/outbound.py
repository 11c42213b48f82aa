"""`sds.out`: what a participant that the job hosts broadcasts to its channel."""

from typing import Annotated, Literal

from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import rule
from culm_topics.sds.records.shape import SomeId, SomeProfile

SdsOutKind = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""Why a message goes out: for the first time, again, without content, for somebody who lacks it, or once."""


@record("sds.out", "what a hosted participant broadcasts. Key: channel id in UTF-8.")
class SdsOutRecord(Record):
    """Value of `sds.out`; its key is the channel's. `participant_id` is who broadcasts it.

    Of `repair` the message may have been written by somebody else.
    """

    profile: SomeProfile
    kind: Annotated[SdsOutKind, rule("out-kind")]
    participant_id: Annotated[SomeId, "who broadcasts it"]
    message_id: SomeId
    wire: Annotated[bytes, "the message's bytes; the same whenever it is sent again"]
