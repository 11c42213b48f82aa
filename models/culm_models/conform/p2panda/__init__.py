"""Operations on p2panda.

- ``documents``: the reducer of documents.
- ``messages``: operations, schema ids, messages and the incremental decoder.
- ``peer``: the peer's state machine.
"""

from culm_models.conform.p2panda import documents, messages, peer

OPERATIONS = (*documents.OPERATIONS, *messages.OPERATIONS, *peer.OPERATIONS)
