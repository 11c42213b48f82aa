"""The HTTP port of jobs and connectors: metrics, alive, ready or the reasons why not."""

from __future__ import annotations

import socket
from typing import ClassVar

import pytest
from prometheus_client import CollectorRegistry, Counter

from culm_topics.errors import TopicsError
from culm_topics.status_server import serve_status
from tests.support.connectors.http import get


class Refused(TopicsError):
    """Whatever error the caller's floor has for this."""

    code: ClassVar[str] = "refused"


def test_probes_answer_with_their_reasons_a_line_each() -> None:
    reasons: dict[str, tuple[str, ...]] = {
        "livez": (),
        "readyz": ("Kafka has not answered for 9 s", "building the index"),
    }
    with serve_status(
        "127.0.0.1",
        0,
        CollectorRegistry(),
        why_not_ready=lambda: reasons["readyz"],
        why_not_alive=lambda: reasons["livez"],
        port_error=Refused,
    ) as port:
        assert get(port, "/livez") == get(port, "/live") == get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/readyz") == get(port, "/ready")
        assert get(port, "/readyz") == (503, "Kafka has not answered for 9 s\nbuilding the index\n")
        reasons |= {"livez": ("the loop has not run for 60 s",), "readyz": ()}
        assert get(port, "/livez") == (503, "the loop has not run for 60 s\n")
        assert get(port, "/readyz?verbose") == (200, "ready\n")


def test_a_process_that_answers_is_alive_and_its_metrics_are_there() -> None:
    registry = CollectorRegistry()
    Counter("entries", "Read.", registry=registry).inc(7)
    with serve_status("127.0.0.1", 0, registry, why_not_ready=tuple, port_error=Refused) as port:
        assert get(port, "/livez") == (200, "ok\n")
        assert "entries_total 7.0" in get(port, "/metrics")[1]
        assert get(port, "/else") == (404, "/metrics, /livez or /readyz\n")


def test_a_port_in_use_is_named_in_the_callers_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(Refused, match=f"127.0.0.1 port {port}: .*[Aa]ddress already in use") as error,
            serve_status("127.0.0.1", port, CollectorRegistry(), why_not_ready=tuple, port_error=Refused),
        ):
            pass
    assert "--metrics-port" in (error.value.hint or "")
