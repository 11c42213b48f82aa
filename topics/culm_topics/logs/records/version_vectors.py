"""`version-vectors`: per peer and log the highest sequence number that the peer holds.

The rows under the all-zero peer id (`HEIGHTS_PEER_ID`) are the log heights of the deployment. How far a peer
is behind is the difference of the two, which readers compute: so one growing log rewrites one row.
"""

from dataclasses import dataclass

from culm_topics.records.shape import FORMAT, check_size, dump, head_size, is_uint, load_array, refuse_item


@dataclass(frozen=True, slots=True)
class VersionVectorRecord:
    """Value of `version-vectors`; its key is peer id, public key and log id (72 bytes)."""

    seq_num: int

    def encode(self) -> bytes:
        """`[1, seq_num]`."""
        return dump(FORMAT, self.seq_num)

    @staticmethod
    def decode(value: bytes | None) -> "VersionVectorRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, seq_num = load_array(value, "version-vectors", 2)
        if not is_uint(seq_num):
            refuse_item("version-vectors", "seq_num", seq_num, "an unsigned integer of 64 bits")
        check_size(value, 2 + head_size(seq_num), "version-vectors")
        return VersionVectorRecord(seq_num)
