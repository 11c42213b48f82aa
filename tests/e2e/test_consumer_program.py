"""A program that consumes the logs, as the README shows it: killed and started again, it misses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment.members import (
    audit,
    heights,
    members,
    new_schema,
    publish_slowly,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PROGRAM = """
import sys
from culm_models.p2panda.operations.operation import decode_operation
from culm_topics.logs.consumer import LogConsumer
from culm_topics.kafka.clients import KafkaSettings

bootstrap, prefix, schema, output = sys.argv[1:]
kafka = KafkaSettings(bootstrap=bootstrap, prefix=prefix)
with LogConsumer(kafka, group_id="program", schema_ids=[schema], state_dir="state") as consumer:
    for entry in consumer:
        operation = decode_operation(entry.operation_bytes)
        with open(output, "a") as file:
            print(entry.public_key.hex(), entry.log_id, entry.seq_num, operation.action, file=file)
        consumer.commit()
"""


@contextlib.contextmanager
def consuming(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program while the context lasts; killed at its end."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        yield process
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.kill()
        process.communicate()


# In every run `tests/topics/logs/test_consumer_group.py` kills a member of a group.
@pytest.mark.soak
async def test_a_killed_consumer_goes_on_where_it_committed(world: World, tmp_path: Path) -> None:
    schema = new_schema("consumer")
    own = write_logs(1, schema, [1, 1])
    output = tmp_path / "seen"
    output.touch()
    arguments = (world.kafka.bootstrap, world.kafka.prefix, schema, str(output))

    def seen() -> list[str]:
        return output.read_text().splitlines()

    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        async with asyncio.TaskGroup() as group:
            for peer, writer in zip(peers, own, strict=True):
                group.create_task(publish_slowly(peer, writer, 80))
            with consuming(tmp_path, *arguments):
                await world.until(lambda: len(seen()) >= 20, "entries at the consumer")
        await audit(world, schema, own, peers)
        killed_after = len(seen())
        with consuming(tmp_path, *arguments):
            await world.until(lambda: len(set(seen())) >= 162, lambda: f"{len(seen())} of 162 entries")

    lines = [line.split() for line in seen()]
    entries = [(bytes.fromhex(key), int(log_id), int(seq_num)) for key, log_id, seq_num, _ in lines]
    # Only what was being handled when the program was killed may come again.
    assert len(entries) - len(set(entries)) <= 1
    repeated = {entry for entry, count in Counter(entries).items() if count > 1}
    assert repeated <= {entries[killed_after - 1]}
    for log, height in heights(own).items():
        in_order = dict.fromkeys(seq_num for *entry_log, seq_num in entries if tuple(entry_log) == log)
        assert list(in_order) == list(range(1, height + 1))
    assert Counter(action for *_, action in lines)["create"] in (2, 3)
