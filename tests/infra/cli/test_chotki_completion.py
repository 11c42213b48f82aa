"""What the shell completes for `culm chotki`, and what `status --metrics-of` reads from an edge's port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from culm_infra.cli.chotki import completion
from culm_infra.cli.chotki.address import complete_address
from culm_infra.cli.chotki.status import EdgeUnreachable, read_edge
from culm_infra.cli.root import run
from culm_infra.errors import InfraError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.status_server import serve_status


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(completion, "_folder", lambda: tmp_path / "names")
    return tmp_path / "names"


def test_names_of_every_deployment_that_was_read_complete(folder: Path) -> None:
    assert completion.complete_name("") == []
    completion.remember_names(KafkaSettings(bootstrap="one:1"), ["ann", "person"])
    completion.remember_names(KafkaSettings(bootstrap="two:1"), ["anna"])
    assert completion.complete_name("an") == ["ann", "anna"]
    completion.remember_names(KafkaSettings(bootstrap="two:1"), ["ben"])
    assert completion.complete_name("") == ["ann", "ben", "person"]


def test_a_file_that_is_none_or_cannot_be_written_disturbs_nobody(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("no folder")
    completion.remember_names(KafkaSettings(bootstrap="one:1"), ["ann"])
    assert completion.complete_name("a") == []
    folder.unlink()
    folder.mkdir()
    (folder / "broken.json").write_text("{")
    assert completion.complete_name("a") == []


def test_addresses_modes_and_ways_complete() -> None:
    assert complete_address("t") == ["tcp://", "tls://"]
    assert completion.complete_mode("rw") == ["rw", "rwl"]
    assert completion.complete_compat("") == ["default", "go"]


@pytest.mark.parametrize("mode", ["8", "x", "lr", "-1"])
def test_a_mode_that_is_none_is_an_error_of_usage(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chotki", "listen", "tcp://127.0.0.1:0", f"--mode={mode}", "--bootstrap", "nowhere:1"]) == 2
    assert "rwl" in capsys.readouterr().err


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
        edge = read_edge(f"127.0.0.1:{port}")
    assert (edge["ready"], edge["reasons"]) == (not reasons, list(reasons))
    assert edge["metrics"] == {
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
