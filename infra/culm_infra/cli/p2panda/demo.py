"""``culm demo``: peers at two edges converge, and a connector is killed on the way."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags, refuse
from culm_infra.cli.results import Results


def demo(
    context: typer.Context,
    *,
    peers: Annotated[
        int, typer.Option("--peers", min=2, max=64, help="How many peers, half at each edge.")
    ] = 4,
    entries: Annotated[
        int, typer.Option("--entries", min=1, max=1_000_000, help="Entries in the made histories.")
    ] = 3_000,
    live: Annotated[int, typer.Option("--live", min=0, max=100_000, help="Entries published live.")] = 400,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 1, help="Makes the same histories again.")
    ] = 7,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
    ] = 120.0,
    flags: DemoFlags,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Peers at two edges converge through QUIC, Kafka and Spark; one connector is killed on the way.

    Starts Kafka, the Spark jobs, two connectors and some peers with overlapping histories (one of them real,
    one forked), lets them catch up by set reconciliation and go live, kills a connector with SIGKILL and
    starts it again, starts the other one with an empty index from the topic `blocks`, and ends with what
    everyone holds, compared byte for byte. Exit status 0: converged; 3: not.

    `culm demo sds` shows channels with causal order and acknowledgements instead.

    Example: culm demo --peers 6 --entries 20000
    """
    if context.invoked_subcommand is not None:
        every = [parameter.name or "" for parameter in context.command.params]
        refuse(context, every, f"stands behind the demo's name: culm demo {context.invoked_subcommand} …")
        return
    from culm_infra.demo.p2panda.report import tables
    from culm_infra.demo.p2panda.run import play
    from culm_infra.demo.p2panda.stage import DemoSettings

    plan = partial(
        DemoSettings,
        peer_count=peers,
        entry_count=entries,
        live_entries=live,
        seed=seed,
        timeout_s=timeout,
    )
    present(
        flags,
        kafka,
        results,
        plan,
        play,
        tables,
        (
            "culm logs list",
            "culm logs export --output logs.jsonl",
            "culm logs peers",
            "culm logs blocks",
        ),
    )
