"""What `culm chotki status --edge` reads from an edge's port, and what it says where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from culm_infra.cli.chotki.status import EdgeUnreachable, read_edge
from culm_infra.errors import InfraError
from culm_topics.status_server import serve_status


class Figures:
    """Some of Chotki's, some of every protocol's, some of others."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("culm_chotki_epoch", "…", 7)
        sessions = GaugeMetricFamily("culm_sessions", "…", labels=("protocol",))
        sessions.add_metric(("chotki",), 2)
        sessions.add_metric(("sds",), 9)
        yield sessions
        refused = CounterMetricFamily("culm_refused", "…", labels=("protocol", "code"))
        refused.add_metric(("chotki", "chotki.letter"), 3)
        yield refused
        yield GaugeMetricFamily("culm_index_bytes", "…", 1)


@pytest.mark.parametrize("reasons", [(), ("reading chotki.state",)])
def test_an_edge_tells_whether_it_is_ready_and_what_it_measures_of_chotki(reasons: tuple[str, ...]) -> None:
    registry = CollectorRegistry()
    registry.register(Figures())
    with serve_status("127.0.0.1", 0, registry, why_not_ready=lambda: reasons, port_error=InfraError) as port:
        found = read_edge(f"127.0.0.1:{port}")
    assert (found["ready"], found["reasons"]) == (not reasons, list(reasons))
    assert found["metrics"] == {
        "culm_chotki_epoch": 7,
        "culm_sessions{protocol=chotki}": 2,
        "culm_refused_total{code=chotki.letter,protocol=chotki}": 3,
    }


def test_where_nobody_answers_the_error_says_what_to_give() -> None:
    with pytest.raises(EdgeUnreachable) as raised:
        read_edge("127.0.0.1:1")
    assert "--metrics-port" in (raised.value.hint or "")
    with pytest.raises(EdgeUnreachable):
        read_edge("not an address")
