"""``culm dag``: files and directories as DAGs in a folder, one line for each command."""

from __future__ import annotations

from culm_infra.cli.noun import noun

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
        "log": "dag.looking:log",
        "export": "dag.bundle:export",
        "import": "dag.bundle:import_",
        "collect": "dag.dropping:collect",
        "drop": "dag.dropping:drop",
        "sync": "dag.exchange:sync",
        "serve": "dag.exchange:serve",
    },
)
