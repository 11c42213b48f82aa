"""`sds.in`: a message of an SDS channel as a connector received it, or fetched it for the job."""

from dataclasses import dataclass

from culm_models.sds.wire.messages import Profile
from culm_topics.logs.records.entries import CONNECTOR_ID_SIZES
from culm_topics.records.keys import PEER_ID_SIZE
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    choice_size,
    dump,
    load_array,
    optional_bytes_size,
    refuse_item,
    require,
)
from culm_topics.sds.records.shape import PROFILES, hint_size, require_hint, require_peer_id

_NAME = "sds.in"


@dataclass(frozen=True, slots=True)
class SdsInRecord:
    """Value of `sds.in`; its key is the channel's.

    `wire` is the message in the channel's `profile`, unchecked. `peer_id` is the peer that brought it; none
    when it comes from the store. `retrieval_hint` is where the transport or the store has it. `connector`, 8
    to 32 bytes, is the connector that wrote the record: it has passed the message on to its own peers.
    """

    profile: Profile
    wire: bytes
    peer_id: bytes | None = None
    retrieval_hint: bytes | None = None
    connector: bytes | None = None

    def encode(self) -> bytes:
        """`[1, profile, wire, peer_id, retrieval_hint, connector]`."""
        require_peer_id(_NAME, self.peer_id)
        require_hint(_NAME, self.retrieval_hint)
        sound = self.connector is None or len(self.connector) in CONNECTOR_ID_SIZES
        require(sound, _NAME, "connector is no connector's id")
        return dump(FORMAT, self.profile, self.wire, self.peer_id, self.retrieval_hint, self.connector)

    @staticmethod
    def decode(value: bytes | None) -> "SdsInRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, profile, wire, peer_id, hint, connector = load_array(value, _NAME, 6)
        size = (
            2
            + choice_size(_NAME, "profile", profile, PROFILES)
            + bytes_size(_NAME, "wire", wire)
            + optional_bytes_size(_NAME, "peer_id", peer_id, PEER_ID_SIZE)
            + hint_size(_NAME, hint)
            + optional_bytes_size(_NAME, "connector", connector)
        )
        if connector is not None and len(connector) not in CONNECTOR_ID_SIZES:
            refuse_item(_NAME, "connector", connector, "8 to 32 bytes or null")
        check_size(value, size, _NAME)
        return SdsInRecord(profile, wire, peer_id, hint, connector)
