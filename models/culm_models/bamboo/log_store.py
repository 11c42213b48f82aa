"""What whoever keeps logs says of one of them."""

from dataclasses import dataclass

LogKey = tuple[bytes, int]
"""Public key and log id: what names a log."""

LogKind = tuple[str, bool]
"""The schema id of a log, and whether its first entry creates its document."""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """The schema and document (34 bytes, None if not known) of a log, and where its author ended it."""

    schema_id: str
    document_id: bytes | None
    end_of_log: int | None
