"""``culm demo``: peers at two edges converge, although a connector is killed meanwhile."""

from __future__ import annotations

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags, refuse
from culm_infra.cli.kit.output import Results
from culm_infra.demo.p2panda.size import P2pandaDemoSize


def demo(
    context: typer.Context,
    *,
    size: P2pandaDemoSize,
    flags: DemoFlags,
    kafka: ClusterFlags,
    results: Results,
) -> None:
    """Peers at two edges converge through QUIC, Kafka and Spark; one connector is killed meanwhile.

    The demo starts Kafka, the Spark jobs, two connectors and some peers with overlapping histories (one of
    them real, one forked). They catch up by set reconciliation and go live. It kills a connector with SIGKILL
    and starts it again, starts the other connector with an empty index from the topic `blocks`, and finally
    compares byte for byte what every peer holds. Two peers at the two edges edit one document at the same
    time; its fields must be the same at both and on the topic `documents`. Exit status 0: converged; 3: not.

    `culm demo sds` shows channels with causal order and acknowledgements instead.

    Example: culm demo --peers 6 --entries 20000
    """
    if context.invoked_subcommand is not None:
        every = [parameter.name or "" for parameter in context.command.params]
        refuse(context, every, f"stands behind the demo's name: culm demo {context.invoked_subcommand} …")
        return
    from culm_infra.demo.p2panda.run import play

    commands = ("list", "export --output logs.jsonl", "status", "blocks")
    present(flags, kafka, results, size, play, [f"culm logs {command}" for command in commands])
