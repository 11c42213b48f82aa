"""`python -m tests.support.process.dying_edge POINT ARGUMENT...`: `culm` that kills itself at a named point.

Points are `before:` or `after:` with a topic of the catalogue (after: Kafka has acknowledged it), or
with `store` (the local store moves to an epoch).
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.kafka import BatchProducer, ProducerRecord


def die() -> None:
    """SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str) -> None:
    """From now on this process dies at this point."""
    when, what = point.split(":")
    send, apply = BatchProducer.send, ChotkiStore.apply

    async def dying_send(
        producer: BatchProducer,
        topic: str,
        records: list[ProducerRecord],
        partition: int | None = None,
    ) -> int:
        is_it = topic.endswith(f".{what}") and bool(records)
        if is_it and when == "before":
            die()
        end = await send(producer, topic, records, partition)
        if is_it:
            die()
        return end

    def dying_apply(store: ChotkiStore, *arguments: Any) -> None:
        if when == "before":
            die()
        apply(store, *arguments)
        die()

    if what == "store":
        setattr(ChotkiStore, "apply", dying_apply)  # noqa: B010
    else:
        setattr(BatchProducer, "send", dying_send)  # noqa: B010


if __name__ == "__main__":
    from culm_infra.cli import main

    die_at(sys.argv.pop(1))
    main()
