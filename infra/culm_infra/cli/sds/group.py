"""``culm sds``: channels of SDS, one line for each command."""

from __future__ import annotations

from culm_infra.cli.noun import noun

app = noun(
    "Channels of SDS: what is said in them, how they stand, and messages out of the store.",
    {
        "join": "sds.join:join",
        "send": "sds.send:send",
        "tail": "sds.tail:tail",
        "status": "sds.status:status",
        "fetch": "sds.fetch:fetch",
        "transfer": "sds.transfer:transfer",
        "reset-clock": "sds.reset_clock:reset_clock",
    },
)
