"""What can go wrong with a folder of DAGs: each with its stable code."""

from culm_connectors.errors import ConnectorError


class DagFolderError(ConnectorError, code="dag.folder"):
    """A folder of DAGs that is missing, damaged, or of another format."""


class DagSyncError(ConnectorError, code="dag.sync"):
    """An exchange with another end that did not come to its end."""


class DagExportError(ConnectorError, code="dag.export"):
    """A folder that is no export, is cut or malformed, or was judged by other settings."""


class DagRefusedError(ConnectorError, code="dag.refused"):
    """A node of one's own that the folder does not keep."""


class DagDoorError(ConnectorError, code="dag.door"):
    """A door that cannot be opened: its address, or what it shows over TLS."""
