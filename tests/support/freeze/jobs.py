"""The checkpoints of the streaming jobs with all their topics, and what comes of both with more records.

The jobs run on records at first; then checkpoints and topics are kept, and with them later records that only
the jobs' state can judge.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import cbor2

from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.sds.channel import Channel
from culm_models.sds.wire.messages import Profile
from culm_streaming.logs.job import LogsSettings
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.supervision.checkpoint import FILE
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import ask_origin
from culm_topics.logs.blocks import Blocks, read_block_vectors, read_blocks
from culm_topics.logs.records import ReceiptRecord
from culm_topics.logs.version_vectors import read_vectors
from culm_topics.records import log_key
from culm_topics.sds.keys import shard_of, split_ack_key, split_index_key
from culm_topics.sds.records import (
    SdsAckRecord,
    SdsCommand,
    SdsCommandRecord,
    SdsEventRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
)
from tests.support.freeze import frozen
from tests.support.freeze.topics import Input, keep_topics, restore_topics, write
from tests.support.kafka.broker import running_broker
from tests.support.kafka.topic_io import read_all, read_logs, read_rejected
from tests.support.p2panda.logs import OTHER_SCHEMA, author, make_log
from tests.support.p2panda.logs_job import entry_value
from tests.support.sds.shards import START_MS, content, key_of, peer, token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
CHANNELS: dict[str, Profile] = {"room": "spec", "js room": "js", "nim room": "nim"}
QUIET = "quiet room"
"""A channel where nobody answers."""

ANN, BOB, EVE = (author(name) for name in ("ann", "bob", "eve"))
_SHORT, _LONG = make_log(ANN, 0, 14), make_log(EVE, 1, 261)
_GAPPY = make_log(BOB, 2**64 - 2, 9, schema_id=OTHER_SCHEMA)
PEERS = (b"p" * 32, b"q" * 32)


@dataclass(slots=True)
class Conversations:
    """Bob in every channel, opposite to Alice, whom the job hosts."""

    bobs: dict[str, Channel] = field(
        default_factory=lambda: {
            channel_id: peer("bob", channel_id, profile=profile) for channel_id, profile in CHANNELS.items()
        }
    )
    heard: list[Input] = field(default_factory=list)
    lost: dict[str, bytes] = field(default_factory=dict)

    def begin(self, outs: Mapping[str, Sequence[bytes]]) -> list[Input]:
        """Bob has heard the first of what Alice said; one message of his is lost, and one follows on it."""
        for channel_id, bob in self.bobs.items():
            bob.receive(outs[channel_id][0], START_MS)
            self.heard.append(_heard(channel_id, content(bob, b"two", START_MS)))
            self.lost[channel_id] = content(bob, b"comes later", START_MS + 1)
            self.heard.append(_heard(channel_id, content(bob, b"waits", START_MS + 2)))
        return self.heard

    def go_on(self, outs: Mapping[str, Sequence[bytes]]) -> list[Input]:
        """Repeats, what was lost, and that Bob has heard the second of what Alice said."""
        inputs = list(self.heard)
        for channel_id, bob in self.bobs.items():
            inputs.append(_heard(channel_id, self.lost[channel_id]))
            bob.receive(outs[channel_id][1], START_MS + 3)
            inputs.append(_heard(channel_id, content(bob, b"four", START_MS + 4)))
        return inputs


def first_inputs() -> list[Input]:
    """Logs, one with a gap and one of some length; what peers hold; hosted participants that speak."""
    inputs = [_entry(entry) for entry in (*_SHORT[:12], *_GAPPY[:5], *_GAPPY[6:8], *_LONG[:260])]
    inputs.append(_receipt(PEERS[0], (ANN, 0, 7), (BOB, 2**64 - 2, 3)))
    inputs.append(_receipt(PEERS[1], (EVE, 1, 250)))
    for number, channel_id in enumerate((*CHANNELS, QUIET)):
        inputs.append(_command(channel_id, "join", 10 * number))
        inputs.append(_command(channel_id, "send", 10 * number + 1, b"one"))
        inputs.append(_command(channel_id, "send", 10 * number + 2, b"another"))
    return inputs


def later_inputs() -> list[Input]:
    """Repeats, forks far back, what was waited for, what grows, and commands that come again."""
    forks = [
        *make_log(ANN, 0, 1, text="other", after=_SHORT[:4]),
        *make_log(EVE, 1, 1, text="other", after=_LONG[:99]),
    ]
    inputs = [_entry(entry) for entry in (*_SHORT[10:], *forks, _GAPPY[5], _GAPPY[8], *_LONG[250:])]
    inputs.append(_receipt(PEERS[0], (ANN, 0, 3), (BOB, 2**64 - 2, 9)))
    inputs.append(_receipt(PEERS[1], (EVE, 1, 261), (ANN, 0, 14)))
    for number, channel_id in enumerate(CHANNELS):
        inputs.append(_command(channel_id, "send", 10 * number + 1, b"one"))
        inputs.append(_command(channel_id, "send", 10 * number + 3, b"three"))
    return inputs


def _entry(checked: CheckedOperation) -> Input:
    key = log_key(*checked.log)
    return "entries", key[0] % PARTITIONS, key, entry_value(checked)


def _receipt(peer_id: bytes, *heights: tuple[KeyPair, int, int]) -> Input:
    rows = tuple((key_pair.public_key, log_id, seq_num) for key_pair, log_id, seq_num in heights)
    return "receipts", 0, peer_id, ReceiptRecord(rows).encode()


def _command(channel_id: str, kind: SdsCommand, number: int, text: bytes | None = None) -> Input:
    profile = CHANNELS.get(channel_id, "spec")
    record = SdsCommandRecord(kind, profile, "alice", token(number), text, peer_id=key_of(1))
    return "sds.commands", shard_of(channel_id, PARTITIONS), channel_id.encode(), record.encode()


def _heard(channel_id: str, wire: bytes) -> Input:
    record = SdsInRecord(CHANNELS[channel_id], wire, key_of(2))
    return "sds.in", shard_of(channel_id, PARTITIONS), channel_id.encode(), record.encode()


NAME = "checkpoints"
PREFIX = "frozen."
"""Spark's own files name the topics: the fixture goes on under the prefix that it was made with."""
STEPS: tuple[tuple[str, ...], ...] = (("logs", "sds"), ("version-vectors", "blocks", "sds-index"))
"""Jobs that run side by side; the second ones read what the first ones have written."""
_TOLD = frozenset(("sent", "delivered"))
"""Events that do not depend on when the jobs run."""


def make_jobs(folder: Path) -> None:
    """The fixture, and the outcome of one uninterrupted run over the same records."""
    from tests.support.spark.session import spark_session

    with running_broker(folder / "kafka") as broker:
        spark = spark_session()
        kafka = settings(broker.bootstrap)
        admin.create(kafka)
        kept, conversations = folder / "kept", Conversations()
        first, second = first_inputs(), later_inputs()
        write(kafka, first)
        run(spark, kafka, kept / "checkpoints")
        answers = list(conversations.begin(outs(kafka)))
        write(kafka, answers)
        run(spark, kafka, kept / "checkpoints")
        later = second + conversations.go_on(outs(kafka))
        keep_topics(kafka, kept / "topics.cbor")
        (kept / "later.cbor").write_bytes(cbor2.dumps(later))
        frozen.pack(kept, NAME)

        whole = kafka.model_copy(update={"prefix": "whole."})
        admin.create(whole)
        write(whole, first)
        write(whole, answers)
        write(whole, later)
        run(spark, whole, folder / "whole")
        frozen.keep(NAME, outcome(whole))
        spark.stop()


def settings(bootstrap: str) -> KafkaSettings:
    """The deployment of the fixture."""
    return KafkaSettings(bootstrap=bootstrap, prefix=PREFIX, partitions=PARTITIONS)


def run(spark: SparkSession, kafka: KafkaSettings, checkpoints: Path) -> None:
    """Have every job take what is there."""
    for jobs in STEPS:
        # Several micro-batches, and so several versions of the state.
        job_settings = {"logs": LogsSettings(max_offsets_per_trigger=200)}
        todo = RunSettings(
            kafka=kafka, checkpoints=str(checkpoints), jobs=jobs, once=True, job_settings=job_settings
        )
        run_jobs(spark, todo, stop=Event())


def restore(kafka: KafkaSettings, folder: Path) -> list[Input]:
    """Put the fixture's topics on this broker, and its checkpoints in the folder, as made with these topics.

    Returns the records that are to come.
    """
    frozen.unpack(NAME, folder)
    restore_topics(kafka, folder / "topics.cbor")
    adopt(kafka, folder, tuple(job for step in STEPS for job in step))
    later = cbor2.loads((folder / "later.cbor").read_bytes())
    return [(name, partition, key, value) for name, partition, key, value in later]


def adopt(kafka: KafkaSettings, folder: Path, jobs: tuple[str, ...]) -> None:
    """Have the checkpoints of these jobs belong to where they lie now, and to the topics of this broker."""
    for job in jobs:
        file = folder / "checkpoints" / job / FILE
        belonging = json.loads(file.read_text())
        origin = ask_origin(clients.admin(kafka), belonging["topic_ids"])
        belonging |= {"cluster_id": origin.cluster_id, "topic_ids": dict(origin.topic_ids)}
        _rewrite(file, json.dumps(belonging))
    # Spark names the schema of a state by its whole path.
    here = (folder / "checkpoints").as_uri().replace("file://", "file:", 1)
    for file in folder.glob("checkpoints/*/state/*/_metadata/v2/[0-9]*"):
        _rewrite(file, re.sub(r"file:[^\"]*?/checkpoints(?=/)", here, file.read_text()))


def _rewrite(file: Path, text: str) -> None:
    file.write_text(text)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's sum over the former bytes


def outs(kafka: KafkaSettings) -> dict[str, list[bytes]]:
    """By channel what the job has Alice say for the first time."""
    wires: dict[str, list[bytes]] = {}
    for key, value in read_all(kafka, "sds.out"):
        assert key is not None
        out = SdsOutRecord.decode(value)
        if out.kind == "new":
            wires.setdefault(key.decode(), []).append(out.wire)
    return wires


def outcome(kafka: KafkaSettings) -> dict[str, Any]:
    """What all topics say together, but for what depends on when the jobs ran."""
    logs = read_logs(kafka)
    return {
        "logs": {key: [record.entry_hash for record in records] for key, records in logs.items()},
        "rejected": sorted(
            (record.code, record.entry or b"", record.first or b"", record.brought_by or b"")
            for record in read_rejected(kafka)
        ),
        "version vectors": {
            (peer_id, *map(_text, log)): seq_num
            for peer_id, vector in read_vectors(kafka).by_peer.items()
            for log, seq_num in vector.items()
        },
        "blocks": _blocks(read_blocks(kafka), ordered=False),
        "block vectors": _blocks(read_block_vectors(kafka), ordered=True),
        "channels": events(kafka),
        "acknowledged": acks(kafka),
        "stored": _by_channel(
            (key.decode(), SdsMessageRecord.decode(value).message_id)
            for key, value in read_all(kafka, "sds.messages")
            if key is not None
        ),
        "indexed": _by_channel(split_index_key(key) for key, _ in read_all(kafka, "sds.index")),
    }


def events(kafka: KafkaSettings) -> dict[str, list[Any]]:
    """By channel what happened, in order; numbers have no gaps and stand for one event each."""
    by_channel: dict[str, dict[int, SdsEventRecord]] = {}
    for key, value in read_all(kafka, "sds.events"):
        assert key is not None
        event = SdsEventRecord.decode(value)
        assert by_channel.setdefault(key.decode(), {}).setdefault(event.number, event) == event
    for numbered in by_channel.values():
        assert sorted(numbered) == list(range(1, len(numbered) + 1))
    return {
        channel_id: [
            (event.kind, event.participant_id, event.message_id, event.content)
            for _, event in sorted(numbered.items())
            if event.kind in _TOLD
        ]
        for channel_id, numbered in by_channel.items()
    }


def acks(kafka: KafkaSettings) -> dict[str, dict[str, Any]]:
    """By channel and message how far it is heard, and by whom."""
    states: dict[str, dict[str, Any]] = {}
    for key, value in read_all(kafka, "sds.acks"):
        row = split_ack_key(key)
        if row.message_id is not None and value is not None:
            record = SdsAckRecord.decode(value)
            states.setdefault(row.channel_id, {})[row.message_id] = (record.state, record.evidence)
    return states


def _blocks(blocks: Blocks, *, ordered: bool) -> dict[Any, Any]:
    """`ordered`: whether the input is the fixture's own; which log is the last of `logs` is chance."""
    assert not blocks.torn
    return {
        (block.name, _text(block.block)): (
            block.version if ordered else [partition for partition, _ in block.version],
            block.log_count,
            block.entry_count,
            dict(block.fingerprints),
            block.heights,
        )
        for block in blocks
    } | {"applied": dict(blocks.applied)}


def _by_channel(ids: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for channel_id, message_id in ids:
        counts.setdefault(channel_id, Counter())[message_id] += 1
    return {channel_id: dict(counted) for channel_id, counted in counts.items()}


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value
