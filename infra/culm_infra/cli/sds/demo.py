"""``culm demo sds``: channels on a bad network end alike."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.results import Results


def demo(
    *,
    participants: Annotated[
        int, typer.Option("--participants", min=2, max=12, help="How many in each channel; half are hosted.")
    ] = 5,
    messages: Annotated[
        int, typer.Option("--messages", min=3, max=100_000, help="Messages said in each channel.")
    ] = 60,
    loss: Annotated[
        float, typer.Option("--loss", min=0, max=0.5, help="Share of messages that the network loses.")
    ] = 0.2,
    cut: Annotated[
        float, typer.Option("--cut", min=0, help="Seconds for which one edge's participants are cut off.")
    ] = 10.0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Says the same again.")] = 7,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
    ] = 180.0,
    flags: DemoFlags,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Channels of SDS on a bad network: hosted and full participants end with the same log, and know it.

    One channel for each wire profile (spec, js, nim) with participants that keep their own state and others
    that the pipeline hosts, at two edges. The network loses a fifth of the messages, doubles and delays some;
    one edge's participants are cut off for a while; the job is killed with SIGKILL and started again. In the
    end all logs are compared message by message. Exit status 0: all alike, nothing lost; 3: not.

    Example: culm demo sds --participants 8 --messages 300
    """
    from culm_infra.demo.sds.bad_network import NetworkFaults
    from culm_infra.demo.sds.report import tables
    from culm_infra.demo.sds.run import play
    from culm_infra.demo.sds.stage import SdsDemoSettings

    plan = partial(
        SdsDemoSettings,
        participants=participants,
        messages=messages,
        faults=NetworkFaults(loss=loss),
        cut_s=cut,
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
        ("culm sds tail demo-spec --from beginning --no-follow", "culm sds status"),
    )
