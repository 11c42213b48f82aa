"""The base of every p2panda error; each module of this folder declares its own errors below it."""

from typing import ClassVar

from culm_models.errors import ModelError


class P2pandaError(ModelError):
    """Bytes or events that break a rule of p2panda's data model or of its replication protocol."""

    code: ClassVar[str] = "p2panda"


class PeerSettingsError(P2pandaError):
    """Settings of a peer that are out of bounds, or do not fit each other."""

    code: ClassVar[str] = "p2panda.settings"
