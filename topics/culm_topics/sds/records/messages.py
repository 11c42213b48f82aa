"""`sds.messages`: the store of a deployment: the bytes of every content message of every channel.

The value is a function of the message alone: whoever writes it again writes the same bytes, and readers take
the first record of an id.
"""

from typing import Annotated

from culm_topics.records.declare import Record, record
from culm_topics.sds.records.shape import Hint, SenderId, SomeId, SomeProfile


@record("sds.messages", "the store, every content message of every channel. Key: channel id in UTF-8.")
class SdsMessageRecord(Record):
    """Value of `sds.messages`; its key is the channel's.

    `message_id`, `sender_id` (may be empty) and `lamport_timestamp` (in the profile's unit) are those of the
    message in `wire`. `retrieval_hint` is what others fetch it by, of another transport's store.
    """

    profile: SomeProfile
    message_id: SomeId
    sender_id: SenderId
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    wire: Annotated[bytes, "the message's bytes"]
    retrieval_hint: Annotated[Hint | None, "by which another transport's store has it"] = None
