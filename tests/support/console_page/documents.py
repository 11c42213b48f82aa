"""Overviews of generated deployments: edges, jobs and topics whose numbers move."""

from __future__ import annotations

import hashlib
import random
import time
from typing import Any, Final

PROTOCOLS: Final = ("p2panda", "sds", "chotki", "bamboo", "dag")
JOBS: Final = {
    "all": ("logs", "version-vectors", "blocks"),
    "documents": ("documents",),
    "coverage": ("coverage",),
    "sds": ("sds", "sds-index"),
    "chotki": ("chotki",),
    "dag": ("dag",),
}
TOPICS: Final = (
    *("announcements", "entries", "logs", "receipts", "rejected", "version-vectors", "blocks", "coverage"),
    *(
        "documents",
        "sds.messages",
        "sds.acks",
        "sds.index",
        "chotki.diffs",
        "chotki.vectors",
        "dag.heads",
        "dag.published",
    ),
)


def hexadecimal(*parts: object) -> str:
    """Return 64 digits that follow from the arguments."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class Deployment:
    """A deployment in numbers, which `document()` moves; tests change `edges`, `jobs` and `topics`."""

    def __init__(self, edges: int = 4, peers: int = 60, *, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self.kafka: dict[str, Any] = {"state": "ok", "detail": ""}
        now_ms = _now_ms()
        self.edges = [self._edge(number, peers // max(1, edges), now_ms) for number in range(edges)]
        self.jobs = [self._job(name, queries, now_ms) for name, queries in JOBS.items()] if edges else []
        self.topics = [self._topic(name) for name in TOPICS]

    def edge(self, name: str) -> dict[str, Any]:
        """Return the edge of a name, to change it."""
        (edge,) = (edge for edge in self.edges if edge["name"] == name)
        return edge

    def set_edge(self, name: str, state: str, severity: int, *reasons: str) -> None:
        """Change the state of an edge; one that is down has no numbers."""
        edge = self.edge(name)
        edge.update(state=state, severity=severity, reasons=list(reasons), since_ms=_now_ms())
        known = state in ("ready", "not_ready", "draining")
        if not known:
            numbers = ("peers", "lag_records", "received_bytes_per_s", "sent_bytes_per_s", "rejected")
            edge.update(dict.fromkeys(numbers), protocols=[])
        elif not edge["protocols"]:
            edge.update(self._served(12), last_progress_ms=_now_ms(), rejected=0)
        for protocol in edge["protocols"]:
            protocol["ready"] = state != "not_ready" or protocol["name"] != edge["protocols"][0]["name"]

    def document(self) -> dict[str, Any]:
        """Return the overview of this moment."""
        now_ms = _now_ms()
        for edge in self.edges:
            if edge["state"] in ("ready", "not_ready", "draining"):
                self._move_edge(edge, now_ms)
        for job in self.jobs:
            for query in job["queries"] if job["state"] == "ready" else ():
                query["lag_records"] = self._near(query["lag_records"] + 3, 0.3)
                query["rows_per_second"] = round(self._near(query["rows_per_second"] + 1, 0.2), 1)
                query["checkpoint_ms"] = now_ms - self._random.randrange(800, 5_000)
            job["seen_ms"] = now_ms
        for topic in self.topics:
            if topic["readable"]:
                topic["records_per_s"] = round(self._near(topic["records_per_s"] + 0.4, 0.3), 1)
                topic["records"] += round(topic["records_per_s"] * 2)
        return {
            "time_ms": now_ms,
            "prefix": "culm.",
            "bootstrap": "kafka-1:9092",
            "kafka": self.kafka,
            **{name: _worst_first(getattr(self, name)) for name in ("edges", "jobs", "topics")},
        }

    def _near(self, value: float, part: float) -> float:
        moved = value * (1 + self._random.uniform(-part, part * 0.97))
        return round(moved) if isinstance(value, int) else moved

    def _move_edge(self, edge: dict[str, Any], now_ms: int) -> None:
        edge.update(seen_ms=now_ms, last_progress_ms=now_ms - self._random.randrange(200, 3_000))
        for protocol in edge["protocols"]:
            for name in ("received_bytes_per_s", "sent_bytes_per_s"):
                protocol[name] = round(self._near(protocol[name] + 40, 0.25))
            protocol["lag_records"] = self._random.choice((0, 0, 0, 2, 11))
        for name in ("received_bytes_per_s", "sent_bytes_per_s", "lag_records"):
            edge[name] = sum(protocol[name] for protocol in edge["protocols"])

    def _served(self, connections: int) -> dict[str, Any]:
        share = max(1, connections // len(PROTOCOLS))
        protocols: list[dict[str, Any]] = [
            {
                "name": name,
                "ready": True,
                "connections": share,
                "lag_records": 0,
                "received_bytes_per_s": self._random.randrange(1_000, 400_000),
                "sent_bytes_per_s": self._random.randrange(1_000, 900_000),
                "rejected": 0,
                "sessions_failed": self._random.choice((0, 0, 0, 3)),
            }
            for name in PROTOCOLS
        ]
        return {"protocols": protocols, "peers": share * len(PROTOCOLS), "lag_records": 0}

    def _edge(self, number: int, connections: int, now_ms: int) -> dict[str, Any]:
        name = f"edge-{number + 1}"
        return {
            "id": hexadecimal("edge", number)[:16],
            "name": name,
            "target": f"http://{name}.example.org:9100",
            "source": "metrics",
            "state": "ready",
            "severity": 0,
            "reasons": [],
            "version": "0.1.0",
            "peer_id": hexadecimal("peer", number),
            "since_ms": now_ms - 86_000_000,
            "seen_ms": now_ms,
            "last_progress_ms": now_ms,
            "received_bytes_per_s": 0,
            "sent_bytes_per_s": 0,
            "rejected": 0,
            "warnings": [],
            **self._served(connections),
        }

    def _job(self, name: str, queries: tuple[str, ...], now_ms: int) -> dict[str, Any]:
        return {
            "id": f"job-culm-{name}",
            "name": name,
            "target": f"unix:/run/culm/job-culm-{name}.sock",
            "source": "socket",
            "state": "ready",
            "severity": 0,
            "reasons": [],
            "version": "0.1.0",
            "since_ms": now_ms - 90_000_000,
            "seen_ms": now_ms,
            "queries": [
                {
                    "job": query,
                    "state": "running",
                    "lag_records": self._random.randrange(4, 60),
                    "rows_per_second": self._random.uniform(20, 900),
                    "checkpoint_ms": now_ms,
                    "failures": 0,
                    "rejected": 0,
                    "state_rows": self._random.randrange(900, 1_900_000),
                    "last_error": None,
                }
                for query in queries
            ],
            "warnings": [],
        }

    def _topic(self, name: str) -> dict[str, Any]:
        return {
            "name": f"culm.{name}",
            "partitions": 12,
            "records": self._random.randrange(300, 9_000_000),
            "records_per_s": self._random.uniform(0, 300),
            "readable": True,
            "detail": "",
            "severity": 0,
        }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _worst_first(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(members, key=lambda member: (-member["severity"], member["name"]))
