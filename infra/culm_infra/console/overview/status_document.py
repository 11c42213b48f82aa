"""The document of a status socket as a reading. Nothing in a document is trusted to be of the right type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from culm_infra.console.overview.reading import (
    NoReading,
    ProtocolReading,
    QueryReading,
    TargetReading,
    running_state,
)
from culm_infra.console.overview.values import count, number, table, tables, text, texts, total, whole
from culm_topics.status_socket import FORMAT

_MAX_PROTOCOLS: Final = 32
_MAX_WARNINGS: Final = 20


def read_document(data: bytes) -> TargetReading:
    """Return the reading of a document. Raises `NoReading` if it is no status document of this format."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise NoReading("unknown", "the answer is not a JSON document") from None
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise NoReading("unknown", "the answer is not a status document")
    if (form := document["format"]) != FORMAT:
        older = form < FORMAT
        raise NoReading(
            "older" if older else "unknown",
            f"the status has format {str(form)[:20]}, and this console reads format {FORMAT}: "
            f"{'update that process' if older else 'update this console'}",
        )
    readers = {"connector": _connector, "job": _job}
    reader = readers.get(kind := text(document.get("kind"), 40) or "")
    if reader is None:
        raise NoReading("unknown", f"the status is of a process of another kind: {kind!r}")
    return reader(document)


def _connector(document: Mapping[str, Any]) -> TargetReading:
    protocols = list(table(document.get("protocols")).items())[:_MAX_PROTOCOLS]
    return TargetReading(
        kind="edge",
        **_common(document),
        peer_id=text(document.get("peer_id"), 128),
        protocols=tuple(_protocol(str(name), table(protocol)) for name, protocol in protocols),
    )


def _job(document: Mapping[str, Any]) -> TargetReading:
    return TargetReading(
        kind="job",
        **_common(document),
        name=text(document.get("which"), 80),
        queries=tuple(map(_query, tables(document.get("queries")))),
    )


def _common(document: Mapping[str, Any]) -> dict[str, Any]:
    reasons, is_ready = texts(document.get("reasons")), document.get("ready") is True
    return {
        "state": running_state(is_ready=is_ready, reasons=reasons, words=text(document.get("state"))),
        "reasons": reasons,
        "version": text(document.get("version"), 40),
        "started_ms": whole(document.get("started_ms")),
        "last_progress_ms": whole(document.get("last_progress_ms")),
        "warnings": tuple(
            {
                "time_ms": whole(warning.get("time_ms")),
                "level": text(warning.get("level"), 20),
                "message": text(warning.get("message"), 500),
            }
            for warning in tables(document.get("warnings"), _MAX_WARNINGS)
        ),
    }


def _protocol(name: str, protocol: Mapping[str, Any]) -> ProtocolReading:
    failed = protocol.get("sessions_failed")
    return ProtocolReading(
        name=text(name, 40) or "",
        ready=protocol.get("ready") is True,
        connections=count(protocol.get("connections")),
        lag_records=total(protocol.get("lag")),
        received_bytes=whole(protocol.get("bytes_in")),
        sent_bytes=whole(protocol.get("bytes_out")),
        rejected=total(protocol.get("rejected")) or 0,
        sessions_failed=total(failed),
    )


def _query(query: Mapping[str, Any]) -> QueryReading:
    error = query.get("last_error")
    latest = table(query.get("latest_batch"))
    return QueryReading(
        job=text(query.get("job"), 80) or "",
        state="stalled" if query.get("stalled") is True else text(query.get("state"), 40) or "unknown",
        lag_records=total(query.get("lag")),
        rows_in=whole(query.get("rows_in")),
        rows_per_second=number(query.get("rows_per_second")),
        checkpoint_ms=whole(query.get("checkpoint_ms")),
        failures=count(query.get("failures")),
        rejected=count(query.get("rejected")),
        state_rows=whole(latest.get("state_rows")),
        last_error=_error(error) if isinstance(error, Mapping) else None,
    )


def _error(error: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "time_ms": whole(error.get("time_ms")),
        "kind": text(error.get("kind"), 40),
        "cause": text(error.get("cause"), 1_000),
        "hint": text(error.get("hint"), 1_000),
    }
