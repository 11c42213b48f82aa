"""The dashboard of connectors: what peers do, what Kafka does, and the index of replicated logs."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import INSTANCE, JOB, PROTOCOL, Dashboard, Panel, PanelRow, limits
from deploy.grafana.shared import (
    family,
    of_process,
    of_protocol,
    of_readiness,
    quantiles,
    rate,
    state_panel,
    text_of,
)

_STATE: Final = PanelRow(
    "State",
    [
        *of_readiness("culm_connector_ready", "culm connector status"),
        Panel(
            "Time since the last progress",
            [('time() - culm_last_progress_timestamp_seconds{%i,query=""}', "{{instance}}")],
            "s",
            "Time since records were read or acknowledged, or Kafka reported that there are none.",
            thresholds=limits(120, 300),
            width=6,
        ),
        state_panel(
            "Files",
            "culm_file_in_force{%i}",
            text_of("culm_file_in_force"),
            {0: ("cannot be read", "red"), 1: ("in force", "green")},
            legend="{{file}} {{instance}}",
        ),
    ],
)

_KAFKA: Final = PanelRow(
    "Kafka",
    [
        Panel(
            "Records to Kafka",
            [(rate("culm_produced_records_total", "%i", "topic, instance"), "{{topic}} {{instance}}")],
            "cps",
            "Records that Kafka has acknowledged, per second and topic.",
        ),
        Panel(
            "Time of a record to Kafka",
            quantiles("culm_produce_latency_seconds", "%i", "instance"),
            "s",
            text_of("culm_produce_latency_seconds"),
            thresholds=limits(1, 10),
        ),
        family("culm_produce_in_flight_records", width=4),
        family("culm_produce_in_flight_bytes", width=4),
        family("culm_dropped_records_total", "kind, instance", width=8),
        family("culm_datagrams_refused_total", "reason, instance", width=8),
        Panel(
            "Event loop",
            quantiles("culm_event_loop_blocked_seconds", "%i", "instance"),
            "s",
            text_of("culm_event_loop_blocked_seconds") + " Everything else waits for it.",
            thresholds=limits(0.1, 1),
        ),
    ],
)

_INDEX: Final = PanelRow(
    "Replicated logs: the index",
    [
        Panel(
            "Full",
            [("culm_index_full{%i}", "{{instance}}")],
            "none",
            text_of("culm_index_full"),
            kind="state-timeline",
            thresholds=((None, "green"), (1, "red")),
            states={0: ("has space", "green"), 1: ("full", "red")},
            width=6,
        ),
        *(
            family(f"culm_index_{name}")
            for name in (
                *("bytes", "entries", "logs", "claimed_logs", "logs_set_aside", "damaged_logs_total"),
                *("logs_read_again_total", "repaired_entries_total"),
            )
        ),
        family("culm_check_queue_entries"),
        family("culm_repeated_faults_total"),
    ],
)

_LOGS: Final = PanelRow(
    "Replicated logs: live and from topics",
    [
        *(
            family(f"culm_live_{name}")
            for name in (
                *("entries_total", "waiting_logs", "early_entries", "longest_wait_seconds"),
                *("attached_entries_total", "dropped_entries_total"),
            )
        ),
        *(
            family(f"culm_logs_{name}")
            for name in (
                *("entries_total", "corrections_total", "standing", "unrepaired"),
                *("repaired_entries_total", "repair_looks_total"),
            )
        ),
    ],
)

CONNECTOR: Final = Dashboard(
    "culm-connector",
    "Connectors",
    "Connectors: peers, data, Kafka, and the index of replicated logs.",
    [JOB, INSTANCE, PROTOCOL],
    [_STATE, *of_protocol("%p"), _KAFKA, _INDEX, _LOGS, of_process("%i")],
)
