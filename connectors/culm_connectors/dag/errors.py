"""What can go wrong with a folder of DAGs: each with its stable code."""

from typing import ClassVar

from culm_connectors.errors import ConnectorError


class DagFolderError(ConnectorError):
    """A folder of DAGs that is missing, damaged, or of another format."""

    code: ClassVar[str] = "dag.folder"


class DagSyncError(ConnectorError):
    """An exchange with another end that did not come to its end."""

    code: ClassVar[str] = "dag.sync"


class DagExportError(ConnectorError):
    """A folder that is no export, is cut or malformed, or was judged by other settings."""

    code: ClassVar[str] = "dag.export"


class DagRefusedError(ConnectorError):
    """A node of one's own that the folder does not keep."""

    code: ClassVar[str] = "dag.refused"


class DagDoorError(ConnectorError):
    """A door that cannot be opened: its address, or what it shows over TLS."""

    code: ClassVar[str] = "dag.door"
