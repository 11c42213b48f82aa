"""The protocols that a connector speaks: names of what opens them, which nothing is loaded for, and settings.

Each entry: the protocol's name, the function that opens it (`edge.protocol.Opening`), and its table in the
allow-list. They are opened in this order and closed in the other. Its settings are one field below. Beside
them stands who reads the payloads of replicated logs, which the room of logs does not know.
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
    """One protocol, by what to load."""

    name: str
    opening: str
    access_table: str

    def load(self) -> Any:
        """What the entry names. Raises ImportError, AttributeError."""
        return load(self.opening)


def load(name: str) -> Any:
    """What `module:attribute` names. Raises ImportError, AttributeError."""
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
    """A section of each protocol; what holds them says what else there is."""

    p2panda: P2pandaSettings = Field(
        P2pandaSettings(), description="replicated logs: what is served, and what one peer may do"
    )
    sds: SdsEdgeSettings = Field(
        SdsEdgeSettings(), description="channels of SDS: whether, and what one peer may do"
    )
    chotki: ChotkiEdgeSettings = Field(
        ChotkiEdgeSettings(), description="replicas of Chotki: where they are, and what one may do"
    )
    bamboo: BambooEdgeSettings = Field(
        BambooEdgeSettings(), description="bare logs of Bamboo: where peers are, and what one may do"
    )
    dag: DagEdgeSettings = Field(
        DagEdgeSettings(), description="DAGs: where peers may call, the deployment's rules, and quotas"
    )
