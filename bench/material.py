"""Entries for measurements: made from a seed, by all cores, each log in order and many logs mixed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from nacl.bindings import crypto_sign_open

from bench.harness import say
from bench.producing import flush
from culm_infra.demo.p2panda.plan import EntryPair, entries_of, made_history
from culm_models.bamboo import decode_entry
from culm_models.keys import PUBLIC_KEY_SIZE, SIGNATURE_SIZE
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import EntryRecord
from culm_topics.records import log_key

_BATCH = 5_000
_LOGS_AT_ONCE = 64
_BROUGHT_BY = bytes(range(32))
_CONNECTOR = b"benchmark"


def entries(count: int, seed: int) -> list[EntryPair]:
    """Make `count` entries with their operations, log after log."""
    with _processes() as pool:
        parts = pool.map(_made, _parts(count, seed))
        return [pair for part in parts for pair in part]


def produce_entries(kafka: KafkaSettings, count: int, seed: int) -> None:
    """Write `count` records to the topic `entries`, as connectors would: the logs mixed, each in order."""
    done = 0
    with _processes() as pool:
        jobs = [(kafka, part, part_seed) for part, part_seed in _parts(count, seed)]
        for made in pool.map(_produced, jobs):
            done += made
            if done % (20 * _BATCH) == 0:
                say(f"  {done:,} of {count:,} entries signed and produced")


def for_sign_open(pairs: Sequence[EntryPair]) -> list[tuple[bytes, bytes]]:
    """Return entries as `crypto_sign_open` expects them: signature with message, and the public key."""
    return [
        (entry[-SIGNATURE_SIZE:] + entry[:-SIGNATURE_SIZE], entry[1 : 1 + PUBLIC_KEY_SIZE])
        for entry, _ in pairs
    ]


def verify_all(signed: Sequence[tuple[bytes, bytes]], threads: int = 1) -> int:
    """Run PyNaCl's bare verify on all entries. Returns their number."""
    if threads == 1:
        for message, public_key in signed:
            crypto_sign_open(message, public_key)
        return len(signed)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(verify_all, [signed[part::threads] for part in range(threads)]))


def _processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))


def _parts(count: int, seed: int) -> list[tuple[int, int]]:
    return [(min(_BATCH, count - start), seed * 1_000_003 + start) for start in range(0, count, _BATCH)]


def _made(part: tuple[int, int]) -> list[EntryPair]:
    count, seed = part
    return list(entries_of([writer.log() for writer in made_history(random.Random(seed), count)]))


def _produced(job: tuple[KafkaSettings, int, int]) -> int:
    kafka, count, seed = job
    client, topic = producer(kafka, bulk=True), kafka.topic("entries")
    for entry_bytes, operation in _mixed(random.Random(seed), count):
        entry = decode_entry(entry_bytes)
        schema_id = peek(operation).schema_id
        value = EntryRecord(entry_bytes, operation, schema_id, _BROUGHT_BY, 0, _CONNECTOR).encode()
        client.produce(topic, value, log_key(entry.public_key, entry.log_id))
        client.poll(0)
    flush(client)
    return count


def _mixed(source: random.Random, count: int) -> Iterator[EntryPair]:
    logs = [iter(writer.log().entries) for writer in made_history(source, count)]
    while logs:
        index = source.randrange(min(_LOGS_AT_ONCE, len(logs)))
        pair = next(logs[index], None)
        if pair is None:
            del logs[index]
        else:
            yield pair
