"""Keys and values of the `sds.*` topics, one small module a record.

- `keys`: their keys, and a channel's partition; `shape`: items that several of them have.
- `inbound`, `commands`: what connectors bring. `outbound`, `events`, `acks`, `fetch`: what the job answers.
- `messages`, `index`: the store, and where a message lies in it. `owners`: whose a channel or an id is.
"""

from culm_topics.sds.records.acks import AckState, SdsAckRecord, SdsChannelRecord, SdsParticipantRecord
from culm_topics.sds.records.commands import TOKEN_SIZE, SdsCommand, SdsCommandRecord
from culm_topics.sds.records.events import SdsEventKind, SdsEventRecord
from culm_topics.sds.records.fetch import MAX_FETCH_ENTRIES, SdsFetchRecord
from culm_topics.sds.records.inbound import SdsInRecord
from culm_topics.sds.records.index import SdsIndexRecord, check_of
from culm_topics.sds.records.keys import (
    AckKey,
    AckKind,
    channel_key,
    index_key,
    owner_key,
    shard_of,
    split_ack_key,
    split_channel_key,
    split_index_key,
    split_owner_key,
)
from culm_topics.sds.records.messages import SdsMessageRecord
from culm_topics.sds.records.outbound import SdsOutKind, SdsOutRecord
from culm_topics.sds.records.owners import OwnedRole, SdsOwnerRecord
from culm_topics.sds.records.shape import (
    MAX_DETAIL_ITEMS,
    MAX_HINT_BYTES,
    MAX_ID_BYTES,
    Detail,
    Details,
    is_id,
)

__all__ = [
    "MAX_DETAIL_ITEMS",
    "MAX_FETCH_ENTRIES",
    "MAX_HINT_BYTES",
    "MAX_ID_BYTES",
    "TOKEN_SIZE",
    "AckKey",
    "AckKind",
    "AckState",
    "Detail",
    "Details",
    "OwnedRole",
    "SdsAckRecord",
    "SdsChannelRecord",
    "SdsCommand",
    "SdsCommandRecord",
    "SdsEventKind",
    "SdsEventRecord",
    "SdsFetchRecord",
    "SdsInRecord",
    "SdsIndexRecord",
    "SdsMessageRecord",
    "SdsOutKind",
    "SdsOutRecord",
    "SdsOwnerRecord",
    "SdsParticipantRecord",
    "channel_key",
    "check_of",
    "index_key",
    "is_id",
    "owner_key",
    "shard_of",
    "split_ack_key",
    "split_channel_key",
    "split_index_key",
    "split_owner_key",
]
