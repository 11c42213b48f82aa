"""Types with which stores of logs name and describe a log."""

from dataclasses import dataclass

LogKey = tuple[bytes, int]
"""Public key and log id, which name a log."""

LogKind = tuple[str, bool]
"""The schema id of a log, and whether its first entry creates its document."""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Schema and document (34 bytes, None if unknown) of a log, and the sequence number at which it ended."""

    schema_id: str
    document_id: bytes | None
    end_of_log: int | None
