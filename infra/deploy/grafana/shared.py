"""Panels that several dashboards have: the families that all protocols share, jobs, and the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deploy.grafana.panels import ALL_IS_GOOD, Panel, PanelRow, States, limits

from docs.reference import metrics

UP: Final = {0: ("away", "red"), 1: ("there", "green")}
READY: Final = {0: ("not ready", "red"), 1: ("ready", "green")}
RUNS: Final = {0: ("does not run", "red"), 1: ("runs", "green")}
RATE: Final = "$__rate_interval"

_FAMILIES: Final = {each.name: each for each in metrics.families()}


def text_of(name: str) -> str:
    """Return what a metric means, as a sentence."""
    text = _FAMILIES[name].text.rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def rate(name: str, matchers: str, by: str) -> str:
    """Return the expression of a counter's rate, added up by labels."""
    return f"sum by ({by}) (rate({name}{{{matchers}}}[{RATE}]))"


def legend_of(by: str) -> str:
    """Return the legend of series that are grouped by these labels: their values."""
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


def quantiles(name: str, matchers: str, by: str) -> Sequence[tuple[str, str]]:
    """Return the median and the 99th percentile of a histogram, by a label."""
    return [
        (
            f"histogram_quantile({value}, sum by (le, {by}) (rate({name}_bucket{{{matchers}}}[{RATE}])))",
            f"{title} {legend_of(by)}",
        )
        for value, title in ((0.5, "median"), (0.99, "99 %"))
    ]


def family(name: str, by: str = "instance", width: int = 6) -> Panel:
    """Return the panel of one family of a connector: the rate of a counter, the value of a gauge."""
    known = _FAMILIES[name]
    title = name.removeprefix("culm_").removesuffix("_total").replace("_", " ")
    is_counter = known.kind == "counter"
    expression = rate(name, "%i", by) if is_counter else f"sum by ({by}) ({name}{{%i}})"
    units = {"bytes": ("bytes", "binBps"), "seconds": ("s", "s"), "0 or 1": ("none", "none")}
    unit = units.get(known.unit, ("short", "cps"))[is_counter]
    return Panel(
        f"{title[:1].upper()}{title[1:]}{' per second' if is_counter else ''}",
        [(expression, legend_of(by))],
        unit,
        text_of(name),
        width=width,
    )


def state_panel(
    title: str,
    query: str,
    description: str,
    states: States,
    *,
    legend: str = "{{instance}}",
    width: int = 6,
    links: Sequence[tuple[str, str]] = (),
) -> Panel:
    """Return the panel of a gauge that is 1 while all is well, over time."""
    return Panel(
        title,
        [(query, legend)],
        "none",
        description,
        kind="state-timeline",
        thresholds=ALL_IS_GOOD,
        states=states,
        width=width,
        links=links,
    )


def of_readiness(ready: str, command: str) -> Sequence[Panel]:
    """Return the panels of readiness and of Kafka.

    The gauge `ready` tells connectors from jobs, and `command` shows why a process is not ready.
    """
    reasons = f"`{command}` and /readyz have the reasons."
    kafka = f"culm_kafka_up{{%i}} and on (job, instance) {ready}"
    return [
        state_panel("Ready", f"{ready}{{%i}}", f"{text_of(ready)} {reasons}", READY),
        state_panel("Kafka", kafka, text_of("culm_kafka_up"), UP),
    ]


def of_protocol(matchers: str) -> Sequence[PanelRow]:
    """Return the rows of the families that all protocols share; `matchers` choose the protocols."""
    by = "protocol, instance"
    legend = legend_of(by)
    return [
        PanelRow(
            "Connections and sessions",
            [
                Panel(
                    "Connections",
                    [(f"sum by ({by}) (culm_connections{{{matchers}}})", legend)],
                    "short",
                    text_of("culm_connections"),
                ),
                Panel(
                    "Connections opened",
                    [(rate("culm_connections_opened_total", matchers, by), legend)],
                    "cps",
                    "Connections opened per second. Many short ones are peers that are refused or fail.",
                ),
                Panel(
                    "Refused and closed connections",
                    [
                        (
                            rate("culm_connections_refused_total", matchers, "protocol, reason"),
                            "refused: {{protocol}} {{reason}}",
                        ),
                        (
                            rate("culm_connections_closed_total", matchers, "protocol, reason"),
                            "closed: {{protocol}} {{reason}}",
                        ),
                    ],
                    "cps",
                    "Connections per second that were turned away, or that this side ended later, by reason.",
                ),
                Panel(
                    "Sessions",
                    [
                        (rate("culm_sessions_started_total", matchers, "protocol"), "{{protocol}}: begun"),
                        (rate("culm_sessions_done_total", matchers, "protocol"), "{{protocol}}: ended well"),
                        (rate("culm_sessions_left_total", matchers, "protocol"), "{{protocol}}: peer left"),
                    ],
                    "cps",
                    "Sessions per second that began, ended well, and ended because the peer left.",
                ),
                Panel(
                    "Failed sessions",
                    [
                        (
                            rate("culm_sessions_failed_total", matchers, "protocol, code"),
                            "{{protocol}} {{code}}",
                        )
                    ],
                    "cps",
                    "Failed sessions per second, by code. docs/error-codes.md explains the codes.",
                ),
                Panel(
                    "Rejected data",
                    [
                        (rate("culm_rejected_total", matchers, "protocol, code"), "{{protocol}} {{code}}"),
                        (rate("culm_forks_total", matchers, "protocol"), "{{protocol}}: forks"),
                    ],
                    "cps",
                    "Data of peers that was refused, per second and code, and the forks in it. "
                    "`culm rejected tail` shows the records.",
                    thresholds=limits(0.2, 10),
                ),
            ],
        ),
        PanelRow(
            "Data",
            [
                Panel(
                    "Received",
                    [(rate("culm_received_bytes_total", matchers, by), legend)],
                    "binBps",
                    "Bytes of streams and channels received from peers, per second.",
                    is_stacked=True,
                ),
                Panel(
                    "Sent",
                    [(rate("culm_sent_bytes_total", matchers, by), legend)],
                    "binBps",
                    "Bytes of streams and channels sent to peers, per second.",
                    is_stacked=True,
                ),
                Panel(
                    "Time until Kafka has acknowledged",
                    quantiles("culm_accept_latency_seconds", matchers, "protocol"),
                    "s",
                    text_of("culm_accept_latency_seconds"),
                    thresholds=limits(1, 10),
                ),
                Panel(
                    "Waiting for Kafka",
                    [(f"sum by ({by}) (culm_staged_records{{{matchers}}})", legend)],
                    "short",
                    text_of("culm_staged_records"),
                ),
                Panel(
                    "Bytes that wait",
                    [
                        (f"sum by ({by}) (culm_staged_bytes{{{matchers}}})", f"for Kafka: {legend}"),
                        (f"sum by ({by}) (culm_unsent_bytes{{{matchers}}})", f"for slow peers: {legend}"),
                    ],
                    "bytes",
                    "Bytes from peers that wait for Kafka, and bytes for peers that read slowly.",
                ),
                Panel(
                    "Records not read yet",
                    [
                        (
                            f"sum by (protocol, topic, instance) (culm_topic_lag_records{{{matchers}}})",
                            "{{topic}} {{protocol}} {{instance}}",
                        )
                    ],
                    "short",
                    text_of("culm_topic_lag_records"),
                    thresholds=limits(1_000, 10_000),
                ),
                Panel(
                    "Peers that wait",
                    [(f"sum by ({by}) (culm_peers_waiting{{{matchers}}})", legend)],
                    "short",
                    text_of("culm_peers_waiting"),
                ),
            ],
        ),
    ]


def of_queries(matchers: str) -> PanelRow:
    """Return the row of jobs on a protocol's dashboard; `matchers` choose the queries."""
    return PanelRow(
        "Its jobs",
        [
            state_panel(
                "Queries",
                f"culm_job_up{{{matchers}}}",
                text_of("culm_job_up"),
                RUNS,
                legend="{{query}} {{instance}}",
                links=[("Jobs", "culm-jobs")],
            ),
            Panel(
                "Lag of queries",
                [
                    (
                        f"sum by (query, instance) (culm_job_lag_records{{{matchers}}})",
                        "{{query}} {{instance}}",
                    )
                ],
                "short",
                text_of("culm_job_lag_records"),
                thresholds=limits(1_000, 10_000),
                width=6,
            ),
            Panel(
                "Records per second",
                [
                    (rate("culm_job_rows_in_total", matchers, "query"), "{{query}}: read"),
                    (rate("culm_job_rows_out_total", matchers, "query"), "{{query}}: written"),
                ],
                "cps",
                "Records that queries read and wrote, per second.",
                width=6,
            ),
            Panel(
                "Refused records and forks",
                [
                    (rate("culm_job_rejected_total", matchers, "query"), "{{query}}: refused"),
                    (rate("culm_job_forks_total", matchers, "query"), "{{query}}: forks"),
                ],
                "cps",
                "Records that queries refused, per second, and the forks among them.",
                thresholds=limits(0.2, 10),
                width=6,
            ),
        ],
    )


def of_process(matchers: str) -> PanelRow:
    """Return the row of the process itself."""
    legend = "{{instance}}"
    return PanelRow(
        "The process",
        [
            Panel(
                "Processor time",
                [(f"rate(process_cpu_seconds_total{{{matchers}}}[{RATE}])", legend)],
                "percentunit",
                "Share of one core. A job's Spark runs in other processes, which are not counted.",
                width=6,
            ),
            Panel(
                "Memory",
                [(f"process_resident_memory_bytes{{{matchers}}}", legend)],
                "bytes",
                "Resident memory of the process. A job's Spark runs in other processes, which are not part.",
                width=6,
            ),
            Panel(
                "Open files and sockets",
                [
                    (f"process_open_fds{{{matchers}}} / process_max_fds{{{matchers}}}", legend),
                ],
                "percentunit",
                "Share of the limit of open files and sockets.",
                thresholds=limits(0.7, 0.9),
                width=6,
            ),
            Panel(
                "Version and start",
                [
                    (
                        f"(time() - process_start_time_seconds{{{matchers}}}) "
                        f"* on (job, instance) group_left (version) culm_build_info{{{matchers}}}",
                        "{{instance}} {{version}}",
                    )
                ],
                "s",
                "Time since the process began, with its version.",
                kind="stat",
                width=6,
            ),
        ],
    )
