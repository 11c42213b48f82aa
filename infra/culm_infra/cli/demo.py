"""``culm demo``: the main job, seen, in under two minutes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, err, out, say

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help="The main job, seen, in about a minute and a half.",
)


@app.callback()
def demo(
    context: typer.Context,
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
        float, typer.Option("--timeout", min=1, help="Seconds that each chapter may take.")
    ] = 120.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the stack up and say what to try next.")
    ] = False,
    directory: options.StackDirectory = None,
    bootstrap: options.Bootstrap = None,
    kafka_option: options.KafkaOption = None,
    prefix: options.Prefix = None,
    json: options.Json = False,
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
        return
    from culm_infra.demo.report import tables
    from culm_infra.demo.run import play
    from culm_infra.demo.stage import DemoSettings
    from culm_infra.settings import load, parse_kafka_options, resolve_kafka

    settings = load(bootstrap=bootstrap, prefix=prefix, kafka=parse_kafka_options(kafka_option or []))
    folder = directory or Path(tempfile.mkdtemp(prefix="culm-demo-"))
    plan = DemoSettings(
        directory=folder.absolute(),
        peer_count=peers,
        entry_count=entries,
        live_entries=live,
        seed=seed,
        timeout_s=timeout,
        keep=keep,
        kafka=resolve_kafka(settings) if settings.bootstrap is not None else None,
        heap_mb=settings.stack.heap_mb,
    )
    with err.status("") as status:
        report = asyncio.run(play(plan, lambda chapter: _tell(status, chapter)))
    if json:
        emit_json(report.as_json())
    else:
        for table in tables(report):
            out.print(table)
    if keep:
        _say_what_to_try(folder, settings.bootstrap)
    elif directory is None and report.converged:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"what the processes printed: {folder / 'output'}")
    if not report.converged:
        raise typer.Exit(EXIT_DEGRADED)


@app.command("sds")
def sds(
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
        float, typer.Option("--timeout", min=1, help="Seconds that each chapter may take.")
    ] = 180.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the stack up and say what to try next.")
    ] = False,
    directory: options.StackDirectory = None,
    bootstrap: options.Bootstrap = None,
    kafka_option: options.KafkaOption = None,
    prefix: options.Prefix = None,
    json: options.Json = False,
) -> None:
    """Channels of SDS on a bad network: hosted and full participants end with the same log, and know it.

    One channel for each wire profile (spec, js, nim) with participants that keep their own state and others
    that the pipeline hosts, at two edges. The network loses a fifth of the messages, doubles and delays some;
    one edge's participants are cut off for a while; the job is killed with SIGKILL and started again. In the
    end all logs are compared message by message. Exit status 0: all alike, nothing lost; 3: not.

    Example: culm demo sds --participants 8 --messages 300
    """
    from culm_infra.demo.sds.report import tables
    from culm_infra.demo.sds.run import play
    from culm_infra.demo.sds.stage import SdsDemoSettings
    from culm_infra.demo.sds.weather import Weather
    from culm_infra.settings import load, parse_kafka_options, resolve_kafka

    settings = load(bootstrap=bootstrap, prefix=prefix, kafka=parse_kafka_options(kafka_option or []))
    folder = directory or Path(tempfile.mkdtemp(prefix="culm-demo-"))
    plan = SdsDemoSettings(
        directory=folder.absolute(),
        participants=participants,
        messages=messages,
        weather=Weather(loss=loss),
        cut_s=cut,
        seed=seed,
        timeout_s=timeout,
        keep=keep,
        kafka=resolve_kafka(settings) if settings.bootstrap is not None else None,
        heap_mb=settings.stack.heap_mb,
    )
    with err.status("") as status:
        report = asyncio.run(play(plan, lambda chapter: _tell(status, chapter)))
    if json:
        emit_json(report.as_json())
    else:
        for table in tables(report):
            out.print(table)
    if keep:
        from culm_infra.stack import Stack

        where = f"--bootstrap {settings.bootstrap or Stack(folder.absolute()).bootstrap}"
        say(f"\nKafka is still up in {folder}. Try next:")
        for line in (
            f"culm sds tail demo-spec --from beginning --no-follow {where}",
            f"culm sds status {where}",
            f"culm stack down --dir {folder}",
        ):
            say(f"  {line}")
    elif directory is None and report.converged:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"what the processes printed: {folder / 'output'}")
    if not report.converged:
        raise typer.Exit(EXIT_DEGRADED)


def _tell(status: Any, chapter: str) -> None:
    """Each chapter leaves a line, also where standard error is no terminal."""
    say(f"[green]•[/] {chapter}")
    status.update(f"{chapter} …")


def _say_what_to_try(folder: Path, bootstrap: str | None) -> None:
    from culm_infra.stack import Stack

    where = f"--bootstrap {bootstrap or Stack(folder.absolute()).bootstrap}"
    say(f"\nKafka is still up in {folder}. Try next:")
    for line in (
        f"culm stack status --dir {folder}",
        f"culm logs list {where}",
        f"culm logs export --output logs.jsonl {where}",
        f"culm peers {where}",
        f"culm blocks {where}",
        f"culm stack down --dir {folder}",
    ):
        say(f"  {line}")
