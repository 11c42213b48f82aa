"""Protocols of a connector: their settings, and the names of the functions that open them.

Each entry has the protocol's name, the function that opens it (`edge.protocol.Opening`), which is imported
only when it is loaded, and its table in the allow-list. They are opened in this order and closed in the
reverse order. `ProtocolSettings` has a field for each. `LOG_PAYLOADS` names the function that reads the
payloads of replicated logs, since the service of logs does not know their format.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.p2panda.settings import P2pandaSettings
from culm_connectors.sds.settings import SdsEdgeSettings


class ProtocolEntry(NamedTuple):
    """One protocol, by the names to import."""

    name: str
    opening: str
    access_table: str

    def load(self) -> Any:
        """Return the function that opens the protocol. Raises `ImportError`, `AttributeError`."""
        return load(self.opening)


def load(name: str) -> Any:
    """Return the object that `module:attribute` names. Raises `ImportError`, `AttributeError`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


PROTOCOLS = (
    ProtocolEntry("p2panda", "culm_connectors.p2panda.protocol:open_p2panda", "peers"),
    ProtocolEntry("sds", "culm_connectors.sds.protocol:open_sds", "channels"),
    ProtocolEntry("chotki", "culm_connectors.chotki.protocol:open_chotki", "replicas"),
    ProtocolEntry("bamboo_p2p", "culm_connectors.bamboo_p2p.protocol:open_bamboo", "logs"),
    ProtocolEntry("dag", "culm_connectors.dag.protocol:open_dag", "spaces"),
)

LOG_PAYLOADS = "culm_models.p2panda.operations.operation:peek"
"""Reads the facts of the payloads in replicated logs, or refuses them (`logs.index.documents.ReadFacts`)."""


class ProtocolSettings(BaseModel):
    """A section for each protocol; subclasses add the other settings."""

    p2panda: P2pandaSettings = Field(
        P2pandaSettings(), description="Replicated logs of p2panda: what is served, and limits of one peer."
    )
    sds: SdsEdgeSettings = Field(
        SdsEdgeSettings(), description="Channels of SDS: whether they are served, and limits of one peer."
    )
    chotki: ChotkiEdgeSettings = Field(
        ChotkiEdgeSettings(), description="Chotki: addresses, source and limits."
    )
    bamboo: BambooEdgeSettings = Field(
        BambooEdgeSettings(), description="Bamboo Point-2-Point: addresses, flavours and limits."
    )
    dag: DagEdgeSettings = Field(
        DagEdgeSettings(), description="DAG replication: addresses, rules and limits."
    )
