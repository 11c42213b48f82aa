"""`sds.index`: where a message lies in `sds.messages`, for retrieval by its id."""

from hashlib import sha256
from typing import Annotated

from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import between, sized
from culm_topics.sds.records.shape import Hint, SenderId

CHECK_SIZE = 4
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
MAX_SIZE = 2**32 - 1


def check_of(wire: bytes) -> bytes:
    """The first 4 bytes of the SHA-256 of a message: whether a record is still the one that was meant."""
    return sha256(wire).digest()[:CHECK_SIZE]


@record("sds.index", "where a message lies. Key: u16 length of the channel id, channel id, message id.")
class SdsIndexRecord(Record):
    """Value of `sds.index`; its key is the channel and the message (`index_key`).

    `size` is that of the message's bytes, `check` is `check_of` them, `retrieval_hint` the one of another
    transport's store, as in `sds.messages`.
    """

    partition: Annotated[int, between(0, MAX_PARTITION), "of `sds.messages`"]
    offset: Annotated[int, between(0, MAX_OFFSET)]
    lamport_timestamp: int
    sender_id: SenderId
    size: Annotated[int, between(0, MAX_SIZE), "bytes of the message"]
    check: Annotated[bytes, sized(CHECK_SIZE), "the first bytes of its SHA-256"]
    retrieval_hint: Annotated[Hint | None, "by which another transport's store has it"] = None
