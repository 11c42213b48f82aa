"""Plans for deleted documents: a node is sent the delete and the operations before it.

A node sorts the operations of a document itself. If an operation that is concurrent with the delete follows
it in this order, aquadoggo 0.9.1 fails to materialise the document ("Cannot perform a commit on a deleted
document"): it continues to show the state before the delete, and does not send the delete to any other node.
So operations that are concurrent with the delete are not sent to a node that does not have them yet.
"""

from __future__ import annotations

from dataclasses import replace

from culm_connectors.logs.index.layout import Place
from culm_connectors.p2panda.aquadoggo.operation_order import (
    Documents,
    Plan,
    ReadSteps,
    ReferenceState,
    cut,
    predecessor,
)
from culm_models.bamboo.log_store import LogKey

DELETES_LOOKED_AT = 8
"""Maximum number of deletes of one document that are tried; one that can be sent is enough."""


async def up_to_the_delete(plan: Plan, documents: Documents, read: ReadSteps) -> Plan:
    """Return the plan cut to a delete and the operations before it; `plan` if no delete can be sent."""
    for log, seq_num in plan.deletes:
        ends = await _ends(plan, documents, read, log, seq_num)
        if ends is not None:
            return replace(plan, ends=ends)
    return plan


async def _ends(
    plan: Plan, documents: Documents, read: ReadSteps, log: LogKey, seq_num: int
) -> dict[LogKey, int] | None:
    """Return each log's last entry for one delete; None if it cannot be sent or another comes before it."""
    parts = {(part.public_key, part.log_id): part for part in plan.ranges}
    ends = {key: part.first_seq_num - 1 for key, part in parts.items()}
    wanted = {log: seq_num}
    while wanted:
        key, last = wanted.popitem()
        if last > plan.ends[key]:
            return None
        while ends[key] < last:
            first = ends[key] + 1
            ends[key] = min(last, first + plan.ahead - 1)
            steps = (await read([cut(parts[key], first, ends[key])])).get(key, ())
            if len(steps) <= ends[key] - first:
                return None  # cut back meanwhile
            for at, step in enumerate(steps, first):
                if step.is_delete and (key, at) != (log, seq_num):
                    return None
                for operation_id in step.previous:
                    reference = predecessor(plan, documents, parts[key], operation_id)
                    if reference is ReferenceState.NEVER:
                        return None
                    if isinstance(reference, Place) and reference.seq_num > ends[reference.log]:
                        wanted[reference.log] = max(reference.seq_num, wanted.get(reference.log, 0))
    return ends
