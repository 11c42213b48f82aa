"""Operations on p2panda.

- ``data``: operations and schema ids.
- ``messages``: messages and the incremental decoder.
- ``peer``: the peer machine.
"""

from culm_models.conform.p2panda import data, messages, peer

OPERATIONS = (*data.OPERATIONS, *messages.OPERATIONS, *peer.OPERATIONS)
