"""`sds.in`: a message of an SDS channel as a connector received it, or fetched it for the job."""

from typing import Annotated

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import ConnectorId, PeerId
from culm_topics.sds.records.shape import Hint, SomeProfile


@record(
    "sds.in", "a message of an SDS channel as a connector received or fetched it. Key: channel id in UTF-8."
)
class SdsInRecord(Record):
    """Value of `sds.in`; its key is the channel's.

    `wire` is the message in the channel's `profile`, unchecked. `peer_id` is the peer that brought it; none
    when it comes from the store. `retrieval_hint` is where the transport or the store has it. `connector`, 8
    to 32 bytes, is the connector that wrote the record: it has passed the message on to its own peers.
    """

    profile: SomeProfile
    wire: Annotated[bytes, "the message's bytes, unchecked"]
    peer_id: Annotated[PeerId | None, "the peer that brought it; null: it comes from the store"] = None
    retrieval_hint: Hint | None = None
    connector: Annotated[
        ConnectorId | None, "the connector that took it, and has passed it on to its own peers"
    ] = None
