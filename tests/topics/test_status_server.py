"""The HTTP port of jobs and connectors: metrics, alive, ready or the reasons why not."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import parser

from culm_topics.errors import TopicsError
from culm_topics.status_server import MAX_CONNECTIONS, MAX_SCRAPES, serve_status
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


def test_an_answer_is_sent_whole_so_that_a_process_that_ends_cuts_none() -> None:
    reasons = ("draining", "building the index")
    with (
        serve_status(
            "127.0.0.1", 0, CollectorRegistry(), why_not_ready=lambda: reasons, port_error=Refused
        ) as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        first = client.recv(65_536)
    assert first.startswith(b"HTTP/1.0 503")
    assert first.endswith(b"\r\n\r\ndraining\nbuilding the index\n")


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


def serving(
    registry: CollectorRegistry, *, request_timeout_s: float = 60.0
) -> contextlib.AbstractContextManager[int]:
    return serve_status(
        "127.0.0.1",
        0,
        registry,
        why_not_ready=tuple,
        port_error=Refused,
        request_timeout_s=request_timeout_s,
    )


def scrape(port: int, **headers: str) -> tuple[Any, bytes]:
    """The headers and the body of an answer with these request headers."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read()


def test_metrics_are_compressed_for_who_accepts_it() -> None:
    registry = CollectorRegistry()
    Counter("entries", "Read.", registry=registry).inc(7)
    with serving(registry) as port:
        headers, body = scrape(port, Accept_Encoding="gzip")
        assert headers["Content-Encoding"] == "gzip"
        assert int(headers["Content-Length"]) == len(body)
        plain_headers, plain = scrape(port)
        assert plain_headers["Content-Encoding"] is None
        assert plain_headers["Content-Type"].startswith("text/plain; version=")
        assert gzip.decompress(body) == plain
        assert b"entries_total 7.0" in plain


def test_metrics_are_open_metrics_for_who_asks_for_it() -> None:
    registry = CollectorRegistry()
    Counter("entries", "Read.", ("code",), registry=registry).labels("bamboo.fork").inc(7)
    Histogram("latency_seconds", "Waited.", registry=registry).observe(0.2)
    with serving(registry) as port:
        headers, body = scrape(port, Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert body.endswith(b"# EOF\n")
        parse: Callable[[str], Iterator[Metric]] = parser.text_string_to_metric_families
        families = {family.name: family for family in parse(body.decode())}
        assert families["entries"].samples[0].value == 7
        assert families["latency_seconds"].type == "histogram"


def request(port: int, data: bytes) -> bytes:
    """All that is answered to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answered = bytearray()
        with contextlib.suppress(ConnectionError):
            while data := client.recv(65536):
                answered += data
        return bytes(answered)


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_a_probe_may_ask_for_the_head_alone(path: str) -> None:
    with serving(CollectorRegistry()) as port:
        head, _, body = request(port, f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(
            b"\r\n\r\n"
        )
        assert head.startswith(b"HTTP/1.0 200 OK")
        assert not body
        answer = request(port, f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.0 405 ")


@pytest.mark.parametrize(
    "data",
    [b"", b"\r\n", b"GET", b"\xff\xfe\x00\r\n\r\n", b"GET /" + b"a" * 70_000, b"GET / HTTP/9.9\r\n\r\n"],
    ids=["nothing", "empty line", "half a line", "noise", "long line", "version"],
)
def test_malformed_requests_leave_the_port_as_it_was(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(CollectorRegistry()) as port:
        request(port, data)
        assert get(port, "/livez") == (200, "ok\n")
    assert capfd.readouterr() == ("", "")


class Collected:
    """A collector whose families are those that a function returns."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> Iterator[Metric]:
        return iter(())


def registry_of(collect: Callable[[], Iterator[Metric]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    collector: Any = Collected(collect)
    registry.register(collector)
    return registry


def test_clients_that_are_slow_use_up_no_thread_and_leave_probes_alone() -> None:
    """Three times as many as the limit: each sends half a request and waits."""
    before = threading.active_count()
    with serving(CollectorRegistry()) as port, contextlib.ExitStack() as clients:
        for number in range(3 * MAX_CONNECTIONS):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
            if number % 8 == 0:
                assert get(port, "/readyz") == (200, "ready\n")
            assert threading.active_count() < before + 2 * MAX_CONNECTIONS
        assert get(port, "/livez") == (200, "ok\n")
        assert scrape(port)[0]["Content-Type"].startswith("text/plain")


def test_a_client_that_sends_for_ever_is_ended() -> None:
    """Each byte comes in time, the request never does."""
    with serving(CollectorRegistry(), request_timeout_s=0.2) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.settimeout(0.02)
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            with contextlib.suppress(ConnectionError):
                while True:
                    client.sendall(b"a")
                    try:
                        if not client.recv(1):
                            break
                    except TimeoutError:
                        continue
        assert get(port, "/livez") == (200, "ok\n")


def test_a_client_that_does_not_read_its_answer_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    def collect() -> Iterator[Metric]:
        family = GaugeMetricFamily("large", "many samples", labels=["number"])
        for number in range(100_000):
            family.add_metric([f"{number:0100}"], number)
        yield family

    with serving(registry_of(collect), request_timeout_s=2.0) as port:
        before = threading.active_count()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            while threading.active_count() <= before:
                threading.Event().wait(0.001)
            while threading.active_count() > before:
                threading.Event().wait(0.01)
        assert get(port, "/livez") == (200, "ok\n")
    assert capfd.readouterr() == ("", "")


def test_few_requests_collect_metrics_at_a_time_and_probes_do_not_wait_for_them() -> None:
    lock, release = threading.Lock(), threading.Event()
    started = threading.Semaphore(0)
    collecting: list[int] = [0, 0]

    def collect() -> Iterator[Metric]:
        with lock:
            collecting[0] += 1
            collecting[1] = max(collecting)
        started.release()
        assert release.wait(60)
        with lock:
            collecting[0] -= 1
        yield GaugeMetricFamily("value", "collected slowly", value=1)

    with serving(registry_of(collect)) as port, ThreadPoolExecutor(MAX_SCRAPES + 2) as pool:
        answers = [pool.submit(get, port, "/metrics") for _ in range(MAX_SCRAPES + 2)]
        for _ in range(MAX_SCRAPES):
            assert started.acquire(timeout=60)
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/readyz") == (200, "ready\n")
        release.set()
        statuses = sorted(answer.result()[0] for answer in answers)
    assert collecting[1] == MAX_SCRAPES
    assert statuses[:MAX_SCRAPES] == [200] * MAX_SCRAPES
    assert set(statuses) <= {200, 503}


def test_a_collector_that_fails_is_logged_and_the_next_scrape_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fails = [True]

    def collect() -> Iterator[Metric]:
        if fails:
            raise ValueError("the store is being closed")
        yield GaugeMetricFamily("value", "collected", value=1)

    with serving(registry_of(collect)) as port:
        assert get(port, "/metrics") == (500, "see the log of the process\n")
        fails.clear()
        assert get(port, "/metrics")[0] == 200
    assert "the metrics cannot be collected" in caplog.text


def test_an_address_of_ipv6_is_served() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with (
            serve_status("::1", 0, CollectorRegistry(), why_not_ready=tuple, port_error=Refused) as port,
            urllib.request.urlopen(f"http://[::1]:{port}/livez", timeout=30) as answer,
        ):
            assert answer.read() == b"ok\n"
    except Refused as error:
        pytest.skip(str(error))
