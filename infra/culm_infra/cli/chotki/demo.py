"""``culm demo chotki``: replicas edit concurrently and converge."""

from __future__ import annotations

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_infra.demo.chotki.size import ChotkiDemoSize


def demo(*, size: ChotkiDemoSize, flags: DemoFlags, kafka: ClusterFlags, results: Results) -> None:
    """Replicas of Chotki edit the same objects at the same time, and end with equal state and vectors.

    Three replicas are connected to two edges, over TCP, TLS and QUIC. A fourth sends what a Go replica
    recorded, byte for byte. They edit fields of every type, classes and objects, without waiting for each
    other; one edge and the job are killed with SIGKILL meanwhile. In the end all replicas, both edges and the
    topic are compared field by field and vector by vector, and counters with the sums of their increments.
    Exit status 0: all are equal and nothing is lost; 3: not.

    Example: culm demo chotki --objects 300 --rounds 60
    """
    from culm_infra.demo.chotki.run import play

    present(flags, kafka, results, size, play, ("culm chotki get", "culm chotki status --all"))
