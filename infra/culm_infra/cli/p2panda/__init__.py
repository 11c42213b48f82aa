"""`culm p2panda`: `peer` is the reference peer, `peer_home` its folder, `documents` reduces what it holds.

`demo` is `culm demo`.
"""

from __future__ import annotations

from culm_infra.cli.kit.noun import noun

app = noun(
    "Peers that speak p2panda's protocol, and their documents.",
    {
        "peer": "p2panda.peer:app",
        "documents": "p2panda.documents:app",
    },
)
