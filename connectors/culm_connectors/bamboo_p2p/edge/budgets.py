"""What one principal may use of the edge, over whichever transport."""

from __future__ import annotations

from culm_connectors.bamboo_p2p.channels.budgets import ChannelBudget
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.edge.budgets import PrincipalBudget, RememberedBudgets


class BambooBudget(PrincipalBudget):
    """Connections and data, and `channels` over TCP and TLS."""

    def __init__(self, settings: BambooEdgeSettings, now_s: float) -> None:
        super().__init__(settings, now_s)
        self.channels = ChannelBudget(settings, now_s)


def edge_budgets(settings: BambooEdgeSettings) -> RememberedBudgets[str, BambooBudget]:
    """The budgets of all principals."""
    return RememberedBudgets(lambda now_s: BambooBudget(settings, now_s))
