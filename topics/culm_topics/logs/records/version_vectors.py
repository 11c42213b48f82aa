"""`version-vectors`: per peer and log the highest sequence number that the peer holds.

The rows under the all-zero peer id (`HEIGHTS_PEER_ID`) are the log heights of the deployment. How far a peer
is behind is the difference of the two, which readers compute: so one growing log rewrites one row.
"""

from culm_topics.records.declare import Record, record


@record(
    "version-vectors",
    "the highest sequence number a peer holds of a log. Key: peer id, public key, log id (72 bytes); under "
    "the all-zero peer id the log heights.",
)
class VersionVectorRecord(Record):
    """Value of `version-vectors`; its key is peer id, public key and log id (72 bytes)."""

    seq_num: int
