"""``culm bamboo``: Bamboo logs in a folder, and partial replication of them between folders.

- `folder`: the common options, and how logs are named
- `entries`: publish, export, import, drop
- `sync`, `serve`: the exchange of logs; `syncing` implements `sync`
- `rules`: policy, pause, resume
- `looking`: status, proposals, verify, and decode for captured bytes
- `demo`: `culm demo bamboo`
"""

from __future__ import annotations

from culm_infra.cli.kit.noun import noun

app = noun(
    "Bamboo logs in a folder: publish, and exchange whole logs or parts of them with other folders.",
    {
        "publish": "bamboo.entries:publish",
        "status": "bamboo.looking:status",
        "sync": "bamboo.sync:sync",
        "serve": "bamboo.serve:serve",
        "policy": "bamboo.rules:policy",
        "pause": "bamboo.rules:pause",
        "resume": "bamboo.rules:resume",
        "proposals": "bamboo.looking:proposals",
        "verify": "bamboo.looking:verify",
        "drop": "bamboo.entries:drop",
        "export": "bamboo.entries:export",
        "import": "bamboo.entries:import_",
        "decode": "bamboo.looking:decode",
    },
)
