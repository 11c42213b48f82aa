"""The line protocol behind ``culm conform``: the models, driven by one JSON object a line.

- ``dispatch``: a line in, a line out; the table of operations; never an exception.
- ``arguments``: reading arguments strictly, with errors that name them.
- ``bamboo``: varu64, YASMF, lipmaa, entries.
- ``p2panda_data``: operations and schema ids.
- ``p2panda_messages``: messages and the incremental decoder.
- ``p2panda_reconciliation``: those of them that belong to set reconciliation, as JSON.
- ``p2panda_peer``: the peer machine.
- ``sds_channel``: the machine of an SDS channel, its settings in ``sds_settings``.

No logic of its own: every answer is what the models say. See docs/conform.md.
"""

from culm_models.conform.dispatch import Conformance

__all__ = ["Conformance"]
