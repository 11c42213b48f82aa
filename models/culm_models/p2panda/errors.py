"""The base of every p2panda error; each module of this folder declares its own errors below it."""

from culm_models.errors import ModelError


class P2pandaError(ModelError, code="p2panda"):
    """Bytes or events that break a rule of p2panda's data model or of its replication protocol."""


class PeerSettingsError(P2pandaError, code="p2panda.settings"):
    """Settings of a peer that are out of bounds, or do not fit each other."""
