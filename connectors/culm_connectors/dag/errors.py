"""Errors of folders of DAGs, each with its stable code."""

from culm_connectors.errors import ConnectorError


class DagFolderError(ConnectorError, code="dag.folder"):
    """A folder of DAGs that is missing, damaged, or of another format."""


class DagSyncError(ConnectorError, code="dag.sync"):
    """An exchange with another end that did not complete."""


class DagExportError(ConnectorError, code="dag.export"):
    """An export that is missing, truncated or malformed, or was validated by other settings."""


class DagRefusedError(ConnectorError, code="dag.refused"):
    """An own node that the folder does not keep."""


class DagDoorError(ConnectorError, code="dag.door"):
    """A door that cannot be opened, because of its address or its TLS files."""
