"""``culm demo chotki``: replicas edit at one time, and end alike."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.results import Results


def demo(
    *,
    objects: Annotated[
        int, typer.Option("--objects", min=3, max=100_000, help="Objects that there are at the beginning.")
    ] = 30,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, max=10_000, help="Rounds in which all edit every type.")
    ] = 30,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Edits the same again.")] = 7,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
    ] = 120.0,
    flags: DemoFlags,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Replicas of Chotki edit the same objects at the same time, and end with equal state and vectors.

    Three replicas at two edges, over TCP, TLS and QUIC, and a fourth that says what a Go replica recorded,
    byte for byte. They edit fields of every type, classes and objects, none waiting for the others; one edge
    and the job are killed with SIGKILL in the midst of it. In the end all replicas, both edges and the topic
    are compared field by field and vector by vector, and counters with what was added to them. Exit status 0:
    all alike, nothing lost; 3: not.

    Example: culm demo chotki --objects 300 --rounds 60
    """
    from culm_infra.demo.chotki.report import tables
    from culm_infra.demo.chotki.run import play
    from culm_infra.demo.chotki.stage import ChotkiDemoSettings

    plan = partial(ChotkiDemoSettings, objects=objects, rounds=rounds, seed=seed, timeout_s=timeout)
    present(flags, kafka, results, plan, play, tables, ("culm chotki get", "culm chotki status --all"))
