"""``culm demo dag``: writers that are rarely connected end with one order and one tip."""

from __future__ import annotations

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_infra.demo.dag.size import POLICIES, DagDemoSize


def demo(*, size: DagDemoSize, flags: DemoFlags, kafka: ClusterFlags, results: Results) -> None:
    """Three offline writers append and publish at the same time; all replicas end with one order and tip.

    They connect to two edges over QUIC, and to one of them over HTTP. Their shards arrive shuffled,
    duplicated and interrupted; each writer makes the join of their heads by itself; their publishes race. A
    connector is killed with SIGKILL during the transfer of a large file, and so is the Spark job with all its
    processes. A stolen proof, a rewrapped proof and an expired proof are refused. In the end the order, tip
    and heads of every replica are compared with the job's topics, and the files byte for byte, under each
    policy. Exit status 0: all are equal; 3: not.

    Example: culm demo dag --file-mb 4; culm demo dag --proof-policy bearer --json
    """
    from culm_infra.demo.dag.run import play

    if unknown := [policy for policy in size.policies or () if policy not in POLICIES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no policy: write {' or '.join(POLICIES)}")
    present(flags, kafka, results, size, play, ("culm topics list --prefix culm.bound.",))
