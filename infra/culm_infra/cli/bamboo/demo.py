"""``culm demo bamboo``: partial, live and payload-frugal replication, in scenes with figures."""

from __future__ import annotations

import typer

from culm_infra.cli import options
from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import Results
from culm_infra.demo.bamboo.size import SCENES, BambooDemoSize


def demo(
    *,
    size: BambooDemoSize,
    directory: options.StackDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Peers of Bamboo Point-2-Point exchange what they want of logs, and nothing else, over TCP and QUIC.

    A sparse reader proves single entries of a long log by their certificate pools; payloads follow later; two
    peers fill each other's gaps in one request; a corrupted payload is passed on unverified and apologised
    for; a large payload goes on after SIGKILL while other entries flow; open ranges carry new entries; credit
    runs out and comes back; a source falls silent; a small device stays small; logs go over two edges and
    Kafka, whole and sparse. Each scene shows figures, and what they have to be. Exit status 0: all are; 3:
    not.

    Example: culm demo bamboo --entries 5000 --payload-mb 8; culm demo bamboo --scene live --live 1000
    """
    from culm_infra.demo.bamboo.run import play

    if unknown := [one for one in size.scenes or [] if one not in SCENES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no scene: write {', '.join(SCENES)}")
    present(DemoFlags(directory=directory), kafka, results, size, play)
