"""Settings of the job `documents` in the settings file."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from culm_streaming.p2panda_documents.settings import MAX_VALUES, DocumentsLayout

_DEFAULTS: Final = DocumentsLayout()


def _field(name: str, description: str) -> Any:
    """Return a field with the default and the bounds of `DocumentsLayout`."""
    return Field(getattr(_DEFAULTS, name), ge=1, le=MAX_VALUES[name], description=description)


class DocumentsJobSection(BaseModel):
    """Layout of the state of the job `documents`, and limits on what a record holds and what waits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    blocks: int = _field(
        "blocks",
        "Number of blocks of documents in each shard. A block has 64 KiB of documents, further ones have "
        "rows of their own. It is fixed for the life of a checkpoint.",
    )
    max_value_bytes: int = _field(
        "max_value_bytes",
        "Largest size of a value in a record of `documents`, in bytes; longer ones are read in `logs`.",
    )
    max_record_bytes: int = _field(
        "max_record_bytes",
        "Largest size of all values of a record, in bytes; beyond it, the longest are read in `logs`.",
    )
    max_waiting_logs: int = _field(
        "max_waiting_logs",
        "Largest number of logs that wait for the operation which their first entry follows.",
    )
    max_waiting_logs_per_author: int = _field(
        "max_waiting_logs_per_author", "Largest number of waiting logs of one author."
    )
    max_waiting_bytes: int = _field(
        "max_waiting_bytes", "Largest size of the operations of all waiting logs, in bytes."
    )
    max_waiting_bytes_per_log: int = _field(
        "max_waiting_bytes_per_log", "Largest size of the operations of one waiting log, in bytes."
    )
