"""Metrics of DAG replication at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.metric_families import counters, gauge


@dataclass(slots=True)
class DagMetrics(ProtocolMetrics):
    """Counters of a DAG edge, in addition to those of every protocol."""

    nodes_in: int = 0
    """New nodes and UCANs received from peers over QUIC."""
    shards_in: int = 0
    records_followed: int = 0
    nodes: int = 0
    """Nodes and UCANs in the folder."""
    shards: int = 0
    shard_bytes: int = 0
    spooled_bytes: int = 0
    """Bytes received of shards that are not complete yet."""


def families(metrics: DagMetrics) -> Iterator[Metric]:
    """Return the metric families of DAG replication alone."""
    yield gauge("culm_dag_nodes", "nodes and UCANs in the folder", metrics.nodes)
    yield gauge("culm_dag_shards", "shards in the folder", metrics.shards)
    yield gauge("culm_dag_shard_bytes", "bytes of shards in the folder", metrics.shard_bytes)
    yield gauge("culm_dag_spool_bytes", "received bytes of incomplete shards", metrics.spooled_bytes)
    yield from counters(
        ("culm_dag_nodes_received", "new nodes and UCANs received from peers over QUIC", metrics.nodes_in),
        ("culm_dag_shards_received", "new shards received from peers over QUIC", metrics.shards_in),
        ("culm_dag_records_followed", "records read from topics", metrics.records_followed),
    )
