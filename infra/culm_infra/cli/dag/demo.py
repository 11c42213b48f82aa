"""``culm demo dag``: writers who are seldom connected end with one order and tip."""

from __future__ import annotations

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import Results
from culm_infra.demo.dag.size import POLICIES, DagDemoSize


def demo(*, size: DagDemoSize, flags: DemoFlags, kafka: KafkaFlags, results: Results) -> None:
    """Three offline writers append and publish at one time, and all replicas end with one order and tip.

    They come over QUIC to two edges, and over HTTP to one of them. Their shards arrive shuffled, doubled and
    interrupted; each makes the join of their heads by itself; their publishes race. A connector is killed
    with SIGKILL while a large file is on its way, and so is the Spark job, with all that runs below it; a
    stolen proof, a rewrapped one and an expired one are refused. In the end everybody's order, tip and heads
    are compared with the job's topics, and the files byte for byte; under each policy. Exit status 0: all
    alike; 3: not.

    Example: culm demo dag --file-mb 4; culm demo dag --policy bearer --json
    """
    from culm_infra.demo.dag.run import play

    if unknown := [one for one in size.policies or () if one not in POLICIES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no policy: write {' or '.join(POLICIES)}")
    present(flags, kafka, results, size, play, ("culm topics list --prefix culm.bound.",))
