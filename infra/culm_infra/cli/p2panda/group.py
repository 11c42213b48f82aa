"""``culm p2panda``: what speaks p2panda's protocol."""

from __future__ import annotations

from culm_infra.cli.noun import noun

app = noun(
    "Peers that speak p2panda's protocol.",
    {
        "peer": "p2panda.peer:app",
    },
)
