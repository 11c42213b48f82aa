"""`culm p2panda`: `peer` is the reference peer, `peer_home` its folder.

`demo` is `culm demo`.
"""

from __future__ import annotations

from culm_infra.cli.kit.noun import noun

app = noun(
    "Peers that speak p2panda's protocol.",
    {
        "peer": "p2panda.peer:app",
    },
)
