"""`culm rejected`: the refused data on the topic of that name.

- `tail`, `show` and `replay` are the commands.
- `records` reads the topic and selects records; `shown` formats one record.
- `originals` finds the records of other topics that were refused.
"""

from __future__ import annotations

from culm_infra.cli.kit.noun import noun

app = noun(
    "Rejected data: what was refused, why and from whom; produce a record again after a fault was fixed.",
    {
        "tail": "rejected.tail:tail",
        "show": "rejected.show:show",
        "replay": "rejected.replay:replay",
    },
)
