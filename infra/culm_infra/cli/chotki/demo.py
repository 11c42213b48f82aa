"""``culm demo chotki``: replicas edit at one time, and end alike."""

from __future__ import annotations

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import Results
from culm_infra.demo.chotki.size import ChotkiDemoSize


def demo(*, size: ChotkiDemoSize, flags: DemoFlags, kafka: KafkaFlags, results: Results) -> None:
    """Replicas of Chotki edit the same objects at the same time, and end with equal state and vectors.

    Three replicas at two edges, over TCP, TLS and QUIC, and a fourth that says what a Go replica recorded,
    byte for byte. They edit fields of every type, classes and objects, none waiting for the others; one edge
    and the job are killed with SIGKILL in the midst of it. In the end all replicas, both edges and the topic
    are compared field by field and vector by vector, and counters with what was added to them. Exit status 0:
    all alike, nothing lost; 3: not.

    Example: culm demo chotki --objects 300 --rounds 60
    """
    from culm_infra.demo.chotki.run import play

    present(flags, kafka, results, size, play, ("culm chotki get", "culm chotki status --all"))
