"""``culm dag``: files and directories as DAGs in a folder, published and exchanged with other folders.

- `folder`: the common options and the form of typed arguments
- `put`, `get`: files and directories in and out, and the join of heads
- `publishing`: publish, delegate, revoke
- `looking`: status, resolve, history; `dropping`: drop, collect; `bundle`: export, import
- `exchange`: sync, serve; `demo`: culm demo dag
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_infra.cli.kit.noun import noun

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_streaming.dag.job import DagJobSettings

app = noun(
    "Files and directories as content-addressed DAGs: put, publish, and exchange with other folders.",
    {
        "put": "dag.put:put",
        "get": "dag.get:get",
        "status": "dag.looking:status",
        "join": "dag.put:join",
        "publish": "dag.publishing:publish",
        "delegate": "dag.publishing:delegate",
        "revoke": "dag.publishing:revoke",
        "resolve": "dag.looking:resolve",
        "history": "dag.looking:history",
        "export": "dag.bundle:export",
        "import": "dag.bundle:import_",
        "collect": "dag.dropping:collect",
        "drop": "dag.dropping:drop",
        "sync": "dag.exchange:sync",
        "serve": "dag.exchange:serve",
    },
)


def dag_settings(settings: CulmSettings) -> DagJobSettings:
    """Build the settings of the job `dag`."""
    from culm_streaming.dag.job import DagJobSettings
    from culm_streaming.dag.settings import DagLayout

    section = settings.job.dag
    return DagJobSettings(
        verdict=section.validation_rules(),
        max_offsets_per_trigger=section.max_offsets_per_trigger,
        max_chunks_per_trigger=section.max_chunks_per_trigger,
        layout=DagLayout(shards=settings.job.shards),
    )
