"""``culm bamboo``: Bamboo logs in a folder, one line for each command."""

from __future__ import annotations

from culm_infra.cli.noun import noun

app = noun(
    "Bamboo logs in a folder: publish, and exchange whole logs or parts of them with other folders.",
    {
        "publish": "bamboo.publish:publish",
        "sync": "bamboo.sync:sync",
        "serve": "bamboo.serve:serve",
        "policy": "bamboo.rules:policy",
        "pause": "bamboo.rules:pause",
        "resume": "bamboo.rules:resume",
        "proposals": "bamboo.looking:proposals",
        "coverage": "bamboo.looking:coverage",
        "verify": "bamboo.looking:verify",
        "drop": "bamboo.bundle:drop",
        "export": "bamboo.bundle:export",
        "import": "bamboo.bundle:import_",
        "decode": "bamboo.decode:decode",
    },
)
