"""``culm demo bamboo``: partial, live and payload-frugal replication, in scenes with figures."""

from __future__ import annotations

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_infra.demo.bamboo.size import SCENES, BambooDemoSize


def demo(
    *,
    size: BambooDemoSize,
    flags: DemoFlags,
    kafka: ClusterFlags,
    results: Results,
) -> None:
    """Peers exchange chosen parts of logs by Bamboo Point-2-Point, and nothing else, over TCP and QUIC.

    A sparse reader proves single entries of a long log by their certificate pools. Payloads follow later. Two
    peers fill each other's gaps in one request. A corrupted payload is forwarded unverified, and an apology
    follows. A large payload resumes after SIGKILL while other entries flow. Open ranges carry new entries.
    Credit runs out and is granted again. A source falls silent. A small device stays small. Logs pass through
    two edges and Kafka, whole and sparse. Each scene prints its figures with their expected values. Exit
    status 0: all figures are as expected; 3: not.

    Example: culm demo bamboo --entries 5000 --payload-mb 8; culm demo bamboo --scene live --live-entries 1000
    """
    from culm_infra.demo.bamboo.run import play

    if unknown := [name for name in size.scenes or [] if name not in SCENES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no scene: write {', '.join(SCENES)}")
    present(flags, kafka, results, size, play, ("culm topics list", "culm logs list --bare"))
