"""`sds.owners`: whose each channel is, and each participant id of it that belongs to a key.

Compacted: the last record of a key counts, and there are no tombstones. The job decides by the order of its
input, and connectors hold what peers say to it.
"""

from typing import Annotated, Literal

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PeerId
from culm_topics.records.kinds import rule
from culm_topics.sds.records.shape import SomeProfile

OwnedRole = Literal["channel", "hosted", "bound"]
"""A channel itself; an id that the job hosts, or has hosted; a full participant's sender id, where the
channel binds those to keys."""


@record(
    "sds.owners",
    "whose a channel or a participant id is. Key: u16 length of the channel id, channel id, participant id; "
    "a channel's own row has no participant id.",
)
class SdsOwnerRecord(Record):
    """Value of `sds.owners`; its key is the channel's id, and the participant's (`owner_key`).

    `peer_id` is the key that owns it; none: the operator. `profile` is the channel's. `time_ms`: since when.
    """

    role: Annotated[OwnedRole, rule("role")]
    profile: Annotated[SomeProfile, "the channel's"]
    peer_id: Annotated[PeerId | None, "the key that owns it; null: the operator"]
    time_ms: Annotated[int, "since when"]
