"""The protocols that a connector speaks: names of what opens them, which nothing is loaded for.

Each entry: the protocol's name, the function that opens it (`edge.protocol.Opening`), and its table in the
allow-list. They are opened in this order and closed in the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class ProtocolEntry(NamedTuple):
    """One protocol, by what to load."""

    name: str
    opening: str
    access_table: str

    def load(self) -> Any:
        """What the entry names. Raises ImportError, AttributeError."""
        module, _, attribute = self.opening.partition(":")
        return getattr(import_module(module), attribute)


PROTOCOLS = (
    ProtocolEntry("p2panda", "culm_connectors.p2panda.protocol:open_p2panda", "peers"),
    ProtocolEntry("sds", "culm_connectors.sds.protocol:open_sds", "channels"),
)
