"""Parts of a support bundle: settings, status documents, metrics, logs and topics of this installation."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from culm_connectors.url import address_text
from culm_infra.settings import CulmSettings, connector_directory, stack_directory
from culm_infra.settings.kafka import redacted, resolve_kafka
from culm_infra.settings.loading import examine
from culm_infra.support.bundle import MAX_PART_CHARACTERS, Part, PartMissing, missing

_LOG_LINES: Final = 2_000
_MAX_LOGS: Final = 20
_MAX_PROCESSES: Final = 20
_MAX_PARTITIONS: Final = 2_000
_METRICS_TIMEOUT_S: Final = 5.0


def settings_text(config: Path | None) -> str:
    """Return the settings in force and the places that values come from, as JSON; secrets are redacted.

    Raises `PartMissing` if a value is wrong.
    """
    loaded = examine(config)
    if loaded.settings is None:
        raise PartMissing("; ".join(map(str, loaded.findings)) or "the settings are wrong")
    places = {".".join(map(str, path)): place for path, place in loaded.origins.items()}
    document = {"file": str(loaded.file), "settings": redacted(loaded.settings), "places": places}
    return _json(document | {"wrong": [str(finding) for finding in loaded.findings]})


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row, default=str) + "\n" for row in rows)


def process_documents(settings: CulmSettings) -> Iterator[Part]:
    """Yield the status documents and the metrics of the connector and the jobs that run here."""
    from culm_infra.running import job_sockets, socket_directory
    from culm_topics.status_socket import CONNECTOR_SOCKET

    connector = connector_directory(settings) / CONNECTOR_SOCKET
    yield from _process("connector", connector, settings.connector.metrics_host)
    sockets = job_sockets(settings)
    for socket in sockets[:_MAX_PROCESSES]:
        yield from _process(socket.stem, socket)
    if not sockets:
        yield missing("status/job.json", f"no job runs here: no socket in {socket_directory(settings)}")


def log_documents(settings: CulmSettings) -> Iterator[Part]:
    """Yield the last lines of the logs of the local stack and of the jobs."""
    folder = stack_directory(settings) / "logs"
    logs = sorted(
        (
            file
            for pattern in ("broker.log", "jvm.out", "spark-*.log")
            for file in folder.glob(pattern)
            if file.is_file() and not file.is_symlink()
        ),
        key=lambda file: file.stat().st_mtime,
    )
    for file in logs[-_MAX_LOGS:]:
        yield Part(f"logs/{file.name}", partial(_last_lines, file))
    if not logs:
        yield missing("logs", f"there are no logs in {folder}")


def topics_text(settings: CulmSettings, timeout_s: float) -> str:
    """Return the topics of the catalogue with the first and the next offset of each partition."""
    from culm_topics.kafka import admin, clients
    from culm_topics.kafka.acls import reader_group_prefix
    from culm_topics.readers.partitions import watermarks

    kafka = resolve_kafka(settings)
    states = admin.list_topics(kafka, timeout_seconds=timeout_s)
    consumer = clients.consumer(kafka, group_id=f"{reader_group_prefix(kafka)}support")
    rows = []
    try:
        left = _MAX_PARTITIONS
        for state in states:
            asked = min(state.partitions, left)
            left -= asked
            offsets = {str(each): watermarks(consumer, state.full_name, each) for each in range(asked)}
            rows.append(
                {
                    "topic": state.full_name,
                    "exists": state.exists,
                    "topic_id": state.topic_id,
                    "partitions": state.partitions,
                    "replicas": state.replicas,
                    "offsets": offsets,
                }
            )
    finally:
        consumer.close()
    return json_lines(rows)


def _process(name: str, socket: Path, host: str = "127.0.0.1") -> Iterator[Part]:
    """Yield the parts about a process; `host` is that of its metrics if its document has the port alone."""
    from culm_topics.status_socket import StatusSocketError, read_status

    try:
        document = read_status(socket)
    except StatusSocketError as error:
        yield missing(f"status/{name}.json", str(error))
        return
    yield Part(f"status/{name}.json", partial(_json, document))
    address = document.get("metrics_address")
    if address is None and (port := document.get("metrics_port")) is not None:
        address = address_text(host, port)
    if address is None:
        yield missing(f"metrics/{name}.txt", "this process serves no metrics (metrics_port)")
    else:
        yield Part(f"metrics/{name}.txt", partial(_metrics, str(address)))


def _metrics(address: str) -> str:
    # No proxy of the environment: the process is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/metrics", timeout=_METRICS_TIMEOUT_S) as answer:
        data: bytes = answer.read(MAX_PART_CHARACTERS)
    return data.decode(errors="replace")


def _last_lines(file: Path) -> str:
    from culm_infra.stack.log_file import last_lines

    return "".join(f"{line}\n" for line in last_lines(file, _LOG_LINES))


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, default=str) + "\n"
