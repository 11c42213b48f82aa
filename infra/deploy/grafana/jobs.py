"""The dashboard of jobs: every query, its lag, its micro-batches, its state and its checkpoint."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import (
    INSTANCE,
    JOB,
    NONE_IS_GOOD,
    QUERY,
    Dashboard,
    Panel,
    PanelRow,
    limits,
)
from deploy.grafana.shared import (
    RUNS,
    legend_of,
    of_process,
    of_readiness,
    quantiles,
    rate,
    state_panel,
    text_of,
)

_BY: Final = "query, instance"
_LEGEND: Final = legend_of(_BY)

_STATE: Final = PanelRow(
    "State",
    [
        state_panel("Queries", "culm_job_up{%q}", text_of("culm_job_up"), RUNS, legend=_LEGEND, width=12),
        *of_readiness("culm_job_ready", "culm job status"),
    ],
)

_PROGRESS: Final = PanelRow(
    "Progress",
    [
        Panel(
            "Lag",
            [("instance_query:culm_job_lag_records:sum{%q}", _LEGEND)],
            "short",
            text_of("culm_job_lag_records"),
            thresholds=limits(1_000, 10_000),
        ),
        Panel(
            "Lag by topic",
            [
                (
                    "sum by (query, topic, instance) (culm_job_lag_records{%q}) > 0",
                    "{{query}} {{topic}} {{instance}}",
                )
            ],
            "short",
            text_of("culm_job_lag_records") + " Topics without lag are left out.",
        ),
        Panel(
            "Time since the last progress",
            [("instance_query:culm_job_progress_age_seconds:time{%q}", _LEGEND)],
            "s",
            text_of("culm_last_progress_timestamp_seconds"),
            thresholds=limits(120, 600),
        ),
        Panel(
            "Age of the checkpoint",
            [("instance_query:culm_job_checkpoint_age_seconds:time{%q}", _LEGEND)],
            "s",
            text_of("culm_job_checkpoint_timestamp_seconds") + " It grows while there is nothing to read.",
        ),
        Panel(
            "Records read",
            [(rate("culm_job_rows_in_total", "%q", _BY), _LEGEND)],
            "cps",
            "Records read per second.",
        ),
        Panel(
            "Records written",
            [(rate("culm_job_rows_out_total", "%q", _BY), _LEGEND)],
            "cps",
            "Records written per second.",
        ),
    ],
)

_BATCHES: Final = PanelRow(
    "Micro-batches",
    [
        Panel(
            "Time of a micro-batch",
            quantiles("culm_job_batch_seconds", "%q", _BY),
            "s",
            text_of("culm_job_batch_seconds"),
            thresholds=limits(60, 300),
        ),
        Panel(
            "Micro-batches",
            [(rate("culm_job_batches_total", "%q", _BY), _LEGEND)],
            "cps",
            "Micro-batches per second.",
        ),
        Panel(
            "Number of the latest micro-batch",
            [("culm_job_batch_id{%q}", _LEGEND)],
            "none",
            text_of("culm_job_batch_id") + " It goes on from the checkpoint after a restart.",
        ),
    ],
)

_STORE: Final = PanelRow(
    "State store",
    [
        Panel(
            "Keys",
            [("culm_job_state_rows{%q}", _LEGEND)],
            "short",
            text_of("culm_job_state_rows"),
        ),
        Panel(
            "Memory",
            [("culm_job_state_bytes{%q}", _LEGEND)],
            "bytes",
            text_of("culm_job_state_bytes"),
        ),
        Panel(
            "Waiting",
            [("culm_job_waiting{%q}", _LEGEND)],
            "short",
            text_of("culm_job_waiting"),
            thresholds=NONE_IS_GOOD,
            width=4,
        ),
        Panel(
            "Waiting for",
            [("time() - (culm_job_waiting_since_timestamp_seconds{%q} > 0)", _LEGEND)],
            "s",
            "Time for which something has always waited; nothing is shown while nothing waits.",
            thresholds=limits(600, 3_600),
            width=4,
        ),
    ],
)

_FAULTS: Final = PanelRow(
    "Faults",
    [
        Panel(
            "Failures",
            [
                (
                    "sum by (query, kind, instance) (increase(culm_job_failures_total{%q}[1h]))",
                    "{{query}} {{kind}} {{instance}}",
                )
            ],
            "short",
            "Failures in the hour before, after which a query was started again, by kind.",
            thresholds=limits(1, 5),
        ),
        Panel(
            "Refused records and forks",
            [
                (rate("culm_job_rejected_total", "%q", _BY), f"refused: {_LEGEND}"),
                (rate("culm_job_forks_total", "%q", _BY), f"forks: {_LEGEND}"),
            ],
            "cps",
            "Records refused per second, and the forks among them. `culm rejected tail` shows the records.",
            thresholds=limits(0.2, 10),
        ),
        Panel(
            "Expired records",
            [("culm_job_expired_records{%q}", _LEGEND)],
            "short",
            text_of("culm_job_expired_records") + " docs/operating.md explains this.",
            thresholds=NONE_IS_GOOD,
        ),
    ],
)

JOBS: Final = Dashboard(
    "culm-jobs",
    "Jobs",
    "Spark jobs: every query, its lag, its micro-batches, its state and its checkpoint.",
    [JOB, INSTANCE, QUERY],
    [_STATE, _PROGRESS, _BATCHES, _STORE, _FAULTS, of_process("%i")],
)
