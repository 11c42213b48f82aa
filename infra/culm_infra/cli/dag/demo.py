"""``culm demo dag``: writers who are seldom connected end with one order and tip."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags, words
from culm_infra.cli.results import Results

_POLICIES: Final = ("bound", "bearer")


def demo(
    *,
    file_mb: Annotated[
        int, typer.Option("--file-mb", min=2, max=10_000, help="Megabytes of the large file.")
    ] = 200,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="Only under this policy: bound or bearer. Repeatable.",
            autocompletion=words(*_POLICIES),
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="The same files again.")] = 7,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
    ] = 240.0,
    flags: DemoFlags,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Three offline writers append and publish at one time, and all replicas end with one order and tip.

    They come over QUIC to two edges, and over HTTP to one of them. Their shards arrive shuffled, doubled and
    interrupted; each makes the join of their heads by itself; their publishes race. A connector is killed
    with SIGKILL while a large file is on its way, and so is the Spark job, with all that runs below it; a
    stolen proof, a rewrapped one and an expired one are refused. In the end everybody's order, tip and heads
    are compared with the job's topics, and the files byte for byte; under each policy. Exit status 0: all
    alike; 3: not.

    Example: culm demo dag --file-mb 4; culm demo dag --policy bearer --json
    """
    from culm_infra.demo.dag.plan import POLICIES, DagDemoSettings
    from culm_infra.demo.dag.report import tables
    from culm_infra.demo.dag.run import play

    wanted = policies or POLICIES
    if unknown := [one for one in wanted if one not in POLICIES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no policy: write {' or '.join(POLICIES)}")
    chosen = tuple(one for one in POLICIES if one in wanted)
    plan = partial(DagDemoSettings, file_mb=file_mb, policies=chosen, seed=seed, timeout_s=timeout)
    present(flags, kafka, results, plan, play, tables, ("culm topics list --prefix culm.bound.",))
