"""Reading single logs from `logs` once more, in place of what the index holds of them.

`logs` is read from its start; records of other logs are passed over without being decoded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from culm_connectors.kafka import TopicReader
from culm_connectors.logs.check_pool import EntryChecker
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.index.chunks import Pair
from culm_models.errors import CulmError
from culm_topics.errors import RecordError
from culm_topics.logs.records import LogRecord

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]


async def repair(
    logs: Collection[bytes],
    index: IndexWriter,
    pool: EntryChecker,
    from_start: TopicReader,
    progress: Progress | None = None,
    forgotten: Callable[[], None] = lambda: None,
) -> int:
    """Forget these logs (40-byte keys) and take them from `logs`; returns how many entries were stored.

    `forgotten` is called as soon as they are, before anybody could see it.

    Raises OffsetLost, ConsumeFailed, IndexDamaged.
    """
    wanted = frozenset(logs)
    stored = 0
    async with from_start:
        await index.forget(wanted, forgotten)
        total = from_start.remaining()
        async for batch in from_start.read_to_end():
            pairs: list[Pair] = []
            for message in batch.messages:
                if message.key() not in wanted:
                    continue
                try:
                    record = LogRecord.decode(message.value())
                except RecordError as error:
                    logger.error("a record of the logs topic is none: %s", error)
                    continue
                pairs.append((record.entry, record.operation))
            if pairs:
                checked = await pool.submit(pairs, verify_signature=False)
                entries = [one for one in checked if not isinstance(one, CulmError)]
                stored += len((await index.write(entries, truth=True)).stored)
            if progress is not None:
                progress("repairing", total - from_start.remaining(), total)
    return stored
