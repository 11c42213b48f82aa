"""``culm logs``: the replicated logs, what peers hold of them, and a connector's index of them."""

from __future__ import annotations

from culm_infra.cli.noun import noun

app = noun(
    "The replicated logs: follow, list, export; what peers hold of them, and a connector's index.",
    {
        "tail": "logs.entries:tail",
        "list": "logs.entries:list_",
        "export": "logs.entries:export",
        "peers": "logs.peers:peers",
        "vv": "logs.peers:vv",
        "blocks": "logs.blocks:blocks",
        "repair": "logs.repair:repair",
        "index": "logs.index:app",
    },
)
