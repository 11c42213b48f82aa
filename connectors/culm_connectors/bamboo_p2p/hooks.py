"""What the owner of a `BambooPeer` adds to it, where a folder is not all: the edge puts Kafka behind it."""

from __future__ import annotations

from collections.abc import Sequence

from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_models.bamboo_p2p.connection import Changes


class PeerHooks:
    """Adds nothing; what somebody wants to add overrides it."""

    def begun(self, remote: RemotePeer) -> None:
        """A connection is there, before anything is said on it."""

    def settled(self, brought: Sequence[tuple[str, Changes]]) -> None:
        """In the thread that works on the logs, behind each step: what which connection has changed.

        What is done to the store here is in one transaction with it.
        """

    async def until_room(self, remote: RemotePeer) -> None:
        """Return once further data of a connection may be read."""

    def ended(self, remote: RemotePeer) -> None:
        """A connection is over, and nothing more comes of it."""
