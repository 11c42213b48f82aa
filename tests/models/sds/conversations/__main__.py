"""Writes tests/vectors/sds/conversations-*.json."""

import json
from pathlib import Path
from typing import Final

from tests.models.sds.conversations import buffers, delivery, knowledge

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "sds"
CONVERSATIONS: Final = (
    delivery.plain,
    delivery.loss_and_cascade,
    delivery.conflict_order,
    delivery.lost_then_late,
    delivery.quarantine,
    buffers.possible_acknowledgements,
    buffers.retry_and_give_up,
    buffers.ephemeral,
    buffers.repair,
    knowledge.retrieval_hints,
    knowledge.hosted_together,
)
WITH_SYNCS: Final = (knowledge.syncs_name,)


def main() -> None:
    """One file a profile, one step a line."""
    for profile in ("spec", "js", "nim"):
        parts = []
        for conversation in (*CONVERSATIONS, *(() if profile == "nim" else WITH_SYNCS)):
            whole = conversation(profile).whole()
            steps = ",\n".join(json.dumps(step, ensure_ascii=False) for step in whole.pop("steps"))
            head = json.dumps(whole, ensure_ascii=False)
            parts.append(f'{head[:-1]}, "steps": [\n{steps}\n]}}')
        (VECTORS / f"conversations-{profile}.json").write_text("[" + ",\n".join(parts) + "]\n")


if __name__ == "__main__":
    main()
