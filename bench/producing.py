"""Bulk production of records to Kafka."""

from __future__ import annotations

from confluent_kafka import Producer

_FLUSH_TIMEOUT_S = 120.0


def produce(client: Producer, topic: str, key: bytes, value: bytes, partition: int) -> None:
    """Produce one record; wait for capacity if the client's queue is full."""
    while True:
        try:
            client.produce(topic, value, key, partition)
        except BufferError:
            client.poll(0.1)
        else:
            client.poll(0)
            return


def flush(client: Producer) -> None:
    """Wait until the broker has everything. Raises TimeoutError."""
    if left := client.flush(_FLUSH_TIMEOUT_S):
        raise TimeoutError(f"{left} records were not taken")
