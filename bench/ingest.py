"""QUIC to a connector to the topic `entries`, against PyNaCl's bare verify on one thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from confluent_kafka import Message, TopicPartition

from bench.harness import BenchSettings, Ratio, best_rate, middle_pair, say
from bench.material import entries, for_sign_open, verify_all
from bench.rig import Rig, cpu_used, wait_until
from bench.wire import SESSION_ID
from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.demo.p2panda.plan import EntryPair
from culm_models.p2panda.wire.codec import encode_entry_message
from culm_topics.kafka.clients import KafkaSettings, consumer

_TIMEOUT_S = 120.0
_GOAL = 0.5


def run(settings: BenchSettings) -> list[Ratio]:
    """Run one connector process; a separate process sends entries that are encoded in advance."""
    count = 3_000 if settings.quick else 20_000
    rounds = 1 if settings.quick else 3
    ratios = []
    with Rig() as rig:
        for datagram_bytes in (8_900, 1_200):
            kafka = rig.topics(
                f"d{datagram_bytes}.",
                topic_config={"entries": {"message.timestamp.type": "LogAppendTime"}},
            )
            connector, port = rig.connector(f"c{datagram_bytes}", kafka, datagram_size=str(datagram_bytes))
            ratios.append(_measured(rig, kafka, connector, port, datagram_bytes, count, rounds))
            connector.stop()
    return ratios


def _measured(
    rig: Rig,
    kafka: KafkaSettings,
    connector: CulmProcess,
    port: int,
    datagram_bytes: int,
    count: int,
    rounds: int,
) -> Ratio:
    ours, bare, cpu = [], [], {}
    for number in range(-1, rounds):
        # The first round, with fewer entries, warms everything up and is dropped.
        pairs = entries(count if number >= 0 else count // 5, seed=datagram_bytes + number)
        signed = for_sign_open(pairs)
        before = best_rate(partial(verify_all, signed), repeats=1)
        with cpu_used(connector=connector.pid, broker=rig.broker_pid) as used:
            rate = _ingest(rig, kafka, port, datagram_bytes, pairs)
        if number < 0:
            continue
        # Average of the rates just before and just after.
        bare_rate = (before + best_rate(partial(verify_all, signed), repeats=1)) / 2
        say(f"  {datagram_bytes} bytes: {rate:,.0f} entries/s against {bare_rate:,.0f}")
        ours.append(rate)
        bare.append(bare_rate)
        cpu = {f"{name}_cpu_us_per_entry": round(1e6 * s / count, 1) for name, s in used.items()}
    rate, bare_rate = middle_pair(ours, bare)
    name = f"QUIC to connector to entries, datagrams of {datagram_bytes}"
    return Ratio(
        "b",
        name,
        rate,
        bare_rate,
        "entries/s",
        "bare PyNaCl verify, one thread",
        goal=_GOAL,
        details={
            "entries": count,
            "rounds": ours,
            "limit_rounds": bare,
            "datagram_bytes": datagram_bytes,
            **cpu,
        },
    )


def _ingest(rig: Rig, kafka: KafkaSettings, port: int, datagram_bytes: int, pairs: list[EntryPair]) -> float:
    """Return entries per second, from the first byte sent to the last record appended."""
    file = rig.folder / "messages"
    _write_messages(file, pairs)
    before = sum(_ends(kafka).values())
    with rig.helper("bring", str(file), str(port), str(datagram_bytes)) as sender:
        started_s = float(sender.hear()["started_s"])
        wait_until(lambda: sum(_ends(kafka).values()) - before >= len(pairs), "ingest", _TIMEOUT_S, 0.2)
    return len(pairs) / (_last_appended_s(kafka) - started_s)


def _write_messages(file: Path, pairs: list[EntryPair]) -> None:
    file.write_bytes(b"".join(encode_entry_message(SESSION_ID, *pair) for pair in pairs))


def _ends(kafka: KafkaSettings) -> dict[int, int]:
    client = consumer(kafka, group_id="bench", start="earliest")
    try:
        topic = kafka.topic("entries")
        partitions = client.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in partitions
        }
    finally:
        client.close()


def _last_appended_s(kafka: KafkaSettings) -> float:
    """Return when the broker appended the newest record, by its clock, which is this machine's."""
    ends = {number: end for number, end in _ends(kafka).items() if end}
    client = consumer(kafka, group_id="bench", start="earliest")
    newest_ms = 0
    try:
        client.assign(
            [TopicPartition(kafka.topic("entries"), number, end - 1) for number, end in ends.items()]
        )
        for _ in ends:
            message: Message | None = client.poll(10)
            assert message is not None and message.error() is None, "the last record of a partition is there"
            newest_ms = max(newest_ms, message.timestamp()[1])
    finally:
        client.close()
    return newest_ms / 1_000
