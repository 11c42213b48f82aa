"""The dashboard that is looked at first: is everything up, what waits, what is refused."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import (
    ALL_IS_GOOD,
    INSTANCE,
    JOB,
    NONE_IS_GOOD,
    PROTOCOL,
    Dashboard,
    Panel,
    PanelRow,
    limits,
)
from deploy.grafana.shared import RATE, READY, UP, of_process, rate, text_of

_EDGE: Final = ("Connectors", "culm-connector")
_JOBS: Final = ("Jobs", "culm-jobs")

_NOW: Final = PanelRow(
    "Now",
    [
        Panel(
            "Connectors",
            [
                ("sum(culm_connector_ready{%i})", "ready"),
                ("count(up{%i} * on (job, instance) culm_connector_ready)", "up"),
            ],
            "none",
            "Connectors that are ready, and all that answer.",
            kind="stat",
            thresholds=ALL_IS_GOOD,
            width=4,
            height=4,
            links=[_EDGE],
        ),
        Panel(
            "Queries",
            [("sum(culm_job_up{%i})", "running"), ("count(culm_job_up{%i})", "all")],
            "none",
            "Queries of jobs that run, and all.",
            kind="stat",
            thresholds=ALL_IS_GOOD,
            width=4,
            height=4,
            links=[_JOBS],
        ),
        Panel(
            "Kafka",
            [("min(culm_kafka_up{%i})", "")],
            "none",
            "Whether Kafka answers all connectors and jobs.",
            kind="stat",
            thresholds=ALL_IS_GOOD,
            states=UP,
            width=4,
            height=4,
        ),
        Panel(
            "Alerts",
            [('count(ALERTS{alertname=~"Culm.*",alertstate="firing"}) or vector(0)', "")],
            "none",
            "Alerts that fire now; docs/deploy/monitoring.md says what to do about each.",
            kind="stat",
            thresholds=NONE_IS_GOOD,
            width=4,
            height=4,
        ),
        Panel(
            "Forks in 24 hours",
            [
                (
                    "(sum(increase(culm_forks_total{%p}[24h])) or vector(0)) + "
                    "(sum(increase(culm_job_forks_total{%i}[24h])) or vector(0))",
                    "",
                )
            ],
            "none",
            "Forks that connectors and jobs found: authors who signed two entries for one position.",
            kind="stat",
            thresholds=NONE_IS_GOOD,
            width=4,
            height=4,
        ),
        Panel(
            "Oldest checkpoint",
            [("max(instance_query:culm_job_checkpoint_age_seconds:time{%i})", "")],
            "s",
            "Age of the oldest latest commit of a query. It grows while there is nothing to read.",
            kind="stat",
            width=4,
            height=4,
            links=[_JOBS],
        ),
    ],
)

_STATE: Final = PanelRow(
    "State",
    [
        Panel(
            "Ready",
            [
                ("culm_connector_ready{%i}", "{{instance}}"),
                ("culm_job_ready{%i}", "{{instance}} (jobs)"),
            ],
            "none",
            "Whether /readyz answers 200.",
            kind="state-timeline",
            thresholds=ALL_IS_GOOD,
            states=READY,
            width=12,
        ),
        Panel(
            "Alerts that fire",
            [
                (
                    "sum by (alertname, severity, instance, query, protocol, code, file) "
                    '(ALERTS{alertname=~"Culm.*",alertstate="firing"})',
                    "",
                )
            ],
            "none",
            "Alerts that fire now, with what they are about.",
            kind="table",
            width=12,
        ),
    ],
)

_FLOW: Final = PanelRow(
    "Flow",
    [
        Panel(
            "Connections",
            [("sum by (protocol) (culm_connections{%p})", "{{protocol}}")],
            "short",
            text_of("culm_connections"),
            links=[_EDGE],
            is_stacked=True,
        ),
        Panel(
            "Received from peers",
            [(rate("culm_received_bytes_total", "%p", "protocol"), "{{protocol}}")],
            "binBps",
            "Bytes received from peers, per second and protocol.",
            is_stacked=True,
        ),
        Panel(
            "Sent to peers",
            [(rate("culm_sent_bytes_total", "%p", "protocol"), "{{protocol}}")],
            "binBps",
            "Bytes sent to peers, per second and protocol.",
            is_stacked=True,
        ),
        Panel(
            "Records to Kafka",
            [(rate("culm_produced_records_total", "%i", "topic"), "{{topic}}")],
            "cps",
            "Records that Kafka has acknowledged, per second and topic.",
            is_stacked=True,
        ),
        Panel(
            "Records not read yet",
            [
                (
                    "sum by (protocol) (instance_protocol:culm_topic_lag_records:sum{%p})",
                    "connectors: {{protocol}}",
                ),
                ("sum by (query) (instance_query:culm_job_lag_records:sum{%i})", "jobs: {{query}}"),
            ],
            "short",
            "Records between what connectors and jobs have read and the end of their topics.",
            thresholds=limits(1_000, 10_000),
        ),
        Panel(
            "Refused data",
            [
                (
                    "sum by (protocol, code) (instance_code:culm_rejected:rate10m{%p})",
                    "{{protocol}} {{code}}",
                ),
                ("sum by (query) (instance_query:culm_job_rejected:rate10m{%i})", "jobs: {{query}}"),
            ],
            "cps",
            "Items per second that connectors and jobs refused, over 10 minutes.",
            thresholds=limits(0.2, 10),
        ),
        Panel(
            "Time until Kafka has acknowledged",
            [
                (
                    "histogram_quantile(0.99, sum by (le, protocol) "
                    f"(rate(culm_accept_latency_seconds_bucket{{%p}}[{RATE}])))",
                    "99 % {{protocol}}",
                )
            ],
            "s",
            text_of("culm_accept_latency_seconds"),
            thresholds=limits(1, 10),
        ),
        Panel(
            "Time since the last progress",
            [
                ('time() - culm_last_progress_timestamp_seconds{%i,query=""}', "{{instance}}"),
                ("instance_query:culm_job_progress_age_seconds:time{%i}", "{{query}} {{instance}}"),
            ],
            "s",
            "Time since a connector read or wrote records, and since a query ended a micro-batch. It stays "
            "low while there is nothing to do.",
            thresholds=limits(120, 300),
        ),
        Panel(
            "Certificates expire in",
            [("culm_certificate_expiry_timestamp_seconds{%i} - time()", "{{file}} {{instance}}")],
            "s",
            "Time until a served certificate expires.",
            kind="stat",
            thresholds=((None, "red"), (172_800, "orange"), (1_209_600, "green")),
        ),
    ],
)

OVERVIEW: Final = Dashboard(
    "culm-overview",
    "Overview",
    "All connectors and jobs: what is up, what waits, what is refused.",
    [JOB, INSTANCE, PROTOCOL],
    [_NOW, _STATE, _FLOW, of_process("%i")],
)
