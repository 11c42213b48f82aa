"""What can go wrong with a folder of logs, an address or a bundle: each with its stable code."""

from typing import ClassVar

from culm_connectors.errors import ConnectorError


class FolderError(ConnectorError):
    """A folder of logs that is missing, damaged, of another format, or of the other flavour of hashes."""

    code: ClassVar[str] = "bamboo_p2p.folder"


class FolderInUse(ConnectorError):
    """Another process holds connections over this folder."""

    code: ClassVar[str] = "bamboo_p2p.folder_in_use"


class LogEnded(ConnectorError):
    """Nothing can be published to a log that its author has ended."""

    code: ClassVar[str] = "bamboo_p2p.log_ended"


class LogIncomplete(ConnectorError):
    """An author lacks links of its own log: what is published now would fork it."""

    code: ClassVar[str] = "bamboo_p2p.log_incomplete"


class PolicyError(ConnectorError):
    """A file of rules that cannot be read, or that says something that is no rule."""

    code: ClassVar[str] = "bamboo_p2p.policy"


class BundleError(ConnectorError):
    """A file that is no bundle, ends too early, or is of the other flavour of hashes."""

    code: ClassVar[str] = "bamboo_p2p.bundle"


class ChannelError(ConnectorError):
    """A connection whose two channels cannot be told from each other, or whose multiplexing is broken."""

    code: ClassVar[str] = "bamboo_p2p.channel"
