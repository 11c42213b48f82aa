"""Errors of a folder of logs, a log, a policy, a bundle or a connection, each with its stable code."""

from typing import ClassVar

from culm_connectors.errors import ConnectorError


class FolderError(ConnectorError):
    """The folder of logs is missing, damaged, of another format, or of another flavour."""

    code: ClassVar[str] = "bamboo_p2p.folder"


class FolderInUse(ConnectorError):
    """Another process serves or syncs this folder."""

    code: ClassVar[str] = "bamboo_p2p.folder_in_use"


class LogEnded(ConnectorError):
    """Nothing can be published to a log that its author has ended."""

    code: ClassVar[str] = "bamboo_p2p.log_ended"


class LogIncomplete(ConnectorError):
    """An author does not hold an entry that its next one links to. Publishing now would fork the log."""

    code: ClassVar[str] = "bamboo_p2p.log_incomplete"


class PolicyError(ConnectorError):
    """The policy file cannot be read, or contains an invalid rule."""

    code: ClassVar[str] = "bamboo_p2p.policy"


class BundleError(ConnectorError):
    """The file is not a bundle, ends too early, or has another flavour."""

    code: ClassVar[str] = "bamboo_p2p.bundle"


class ChannelError(ConnectorError):
    """The two channels of a connection cannot be told apart, or its multiplexing is malformed."""

    code: ClassVar[str] = "bamboo_p2p.channel"
