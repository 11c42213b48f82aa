"""Operations on p2panda.

- ``messages``: operations, schema ids, messages and the incremental decoder.
- ``peer``: the peer's state machine.
"""

from culm_models.conform.p2panda import messages, peer

OPERATIONS = (*messages.OPERATIONS, *peer.OPERATIONS)
