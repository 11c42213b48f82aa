"""One dashboard a protocol: the families that all share, those of the protocol alone, and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deploy.grafana.panels import INSTANCE, JOB, Dashboard, PanelRow
from deploy.grafana.shared import family, of_protocol, of_queries

from docs.reference import metrics

_LABELLED: Final = {
    "culm_chotki_diff_blocks": "direction, stage",
    "culm_chotki_diff_bytes": "direction, stage",
    "culm_chotki_warnings_total": "code, instance",
    "culm_p2panda_ignored_total": "code, instance",
    "culm_p2panda_node_rejected_total": "code, instance",
    "culm_p2panda_node_sessions_failed_total": "code, instance",
    "culm_p2panda_sessions_total": "mode, instance",
    "culm_sds_lookups_total": "where, instance",
    "culm_sds_messages_received_total": "kind, instance",
}
"""Labels by which the series of a family are shown, if not by instance alone."""


def _dashboard(protocol: str, title: str, sections: Sequence[tuple[str, str]], queries: str) -> Dashboard:
    """Return the dashboard of a protocol.

    Each section has a title and the beginning of the names of its families; a family belongs to the first
    section that fits.
    """
    names = [each.name for each in metrics.families() if each.section == protocol]
    rows: list[PanelRow] = []
    for section, beginning in sections:
        fitting = [name for name in names if name.startswith(f"culm_{protocol}_{beginning}")]
        names = [name for name in names if name not in fitting]
        rows.append(PanelRow(section, [family(name, _LABELLED.get(name, "instance")) for name in fitting]))
    matchers = f'job=~"$job",instance=~"$instance",protocol="{protocol}"'
    of_jobs = of_queries(f'job="culm-jobs",query=~"{queries}"')
    return Dashboard(
        f"culm-{protocol.replace('_', '-')}",
        title,
        f"{title} at connectors, and its jobs.",
        [JOB, INSTANCE],
        [*of_protocol(matchers), *rows, of_jobs],
    )


PROTOCOLS: Final = (
    _dashboard(
        "p2panda",
        "p2panda",
        [
            ("Entries", "entries_"),
            ("Reconciliation", "reconciliation"),
            ("p2panda nodes", "node"),
            ("Sessions and logs", ""),
        ],
        "logs|blocks|version-vectors|documents",
    ),
    _dashboard("sds", "SDS", [("Messages", "messages_"), ("Channels and participants", "")], "sds|sds-index"),
    _dashboard(
        "chotki",
        "Chotki",
        [("Diffs", "diff_"), ("Live packets", "packets_"), ("State and waiting data", "")],
        "chotki",
    ),
    _dashboard(
        "bamboo_p2p",
        "Bamboo",
        [("Entries", "entries_"), ("Payloads", "payloads_"), ("Logs, quotas and spool", "")],
        "logs|coverage",
    ),
    _dashboard("dag", "DAG", [("Nodes", "nodes"), ("Shards and spool", "")], "dag"),
)
