"""``culm job``: list and run the streaming jobs, and show those that run."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from culm_infra.cli.kit import log_lines, options
from culm_infra.cli.kit.noun import load, noun
from culm_infra.cli.kit.options import ClusterFlags, refuse
from culm_infra.cli.kit.output import Results, exit_status, print_error, say
from culm_infra.cli.kit.reaching import announced_wait
from culm_infra.errors import InfraError
from culm_infra.protocols import JOB_FLAGS, JOB_SETTINGS
from culm_topics.catalogue import registry
from culm_topics.catalogue.jobs import DEFAULT_GROUP, jobs_of, runnable_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from culm_infra.settings import CulmSettings
    from culm_streaming.metrics import JobHealth
    from culm_streaming.status import JobStatus
    from culm_streaming.supervision.queries import RunSettings
    from culm_topics.kafka.clients import KafkaSettings

_EXIT_INTERRUPTED = 130
complete_job: Final = options.words(*runnable_names())


def list_(*, results: Results) -> None:
    """List every job with its group, the topics that it reads and writes, and its purpose.

    Example: `culm job list`
    """
    columns = {"job": "name", "group": "group", "reads": "reads", "writes": "writes", "what it does": "doc"}
    results.rows(map(asdict, registry.JOBS), columns)


def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB|GROUP]...",
            help="Jobs, or groups of jobs; `culm job list` shows them. By default the group `all`.",
            autocompletion=complete_job,
        ),
    ] = None,
    *,
    kafka: ClusterFlags,
    master: Annotated[str | None, typer.Option(help="The Spark master (local[*] by default).")] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(help="Directory or URL of the checkpoints; by default below the local stack's."),
    ] = None,
    verify: Annotated[
        Literal["full", "chain"] | None,
        typer.Option(help="full: everything; chain: all but signatures, which connectors have checked."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=1024, help="State shards; fixed for the life of a checkpoint.")
    ] = None,
    state_partitions: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Spark's state partitions; fixed for the life of a checkpoint."),
    ] = None,
    block_bits: Annotated[
        int | None,
        typer.Option(min=0, max=16, help="Bits of a block's prefix; fixed for the life of a checkpoint."),
    ] = None,
    max_offsets: Annotated[int | None, typer.Option(min=1, help="The most records of a micro-batch.")] = None,
    sds_max_offsets: Annotated[
        int | None, typer.Option(min=1, help="The most records of a micro-batch of the job sds.")
    ] = None,
    sds_interval_ms: Annotated[
        int | None, typer.Option(min=0, help="sds looks after its timers at most this often.")
    ] = None,
    sds_cache_entries: Annotated[
        int | None, typer.Option(min=0, help="Messages of channels that each worker of sds keeps in memory.")
    ] = None,
    interval_ms: Annotated[int, typer.Option(min=0, help="Micro-batches start at most this often.")] = 0,
    quick_start: options.QuickStart = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Take what is there now, then end. What one of the jobs writes meanwhile may be left "
            "for the next run of those that read it.",
        ),
    ] = False,
    spark_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Any Spark property.")
    ] = None,
    metrics_port: options.MetricsPort = None,
    metrics_host: Annotated[
        str | None, typer.Option(help="The address that serves the metrics (127.0.0.1 by default).")
    ] = None,
    log_format: options.LogFormat = None,
) -> None:
    """Run jobs in one process, resuming from their checkpoints, until stopped or until one fails.

    The group `all` has the jobs that replicated logs need; other jobs run if they are named. One port serves
    the metrics of all of them: if the setting `metrics_port` is a table, the port of the first name that has
    one. Exit status: 0 stopped, or done with --once; 1 failed, an operator must intervene; 75 a temporary
    failure lasted too long, start it again.

    Example: `culm job run --once`; `culm job run all documents`
    """
    from culm_infra.running import deployment_name
    from culm_infra.settings import resolve_kafka, stack_directory
    from culm_streaming.errors import StreamingError
    from culm_topics.errors import TopicsError

    chosen = tuple(dict.fromkeys(names or (DEFAULT_GROUP,)))
    which = "+".join(chosen)
    jobs = chosen_jobs(chosen)
    for flag, heeding in JOB_FLAGS.items():
        if not set(jobs) & set(heeding):
            refuse(context, [flag], f"is for {' and '.join(heeding)}, and runs with none of them")
    if once:
        refuse(context, ["interval_ms"], "--once runs micro-batches one after the other")
    flags: dict[str, Any] = {
        "block_bits": block_bits,
        "log_format": log_format,
        "job": {
            "master": master,
            "checkpoints": checkpoints,
            "verify": verify,
            "shards": shards,
            "state_partitions": state_partitions,
            "max_offsets_per_trigger": max_offsets,
            "sds": {
                "max_offsets_per_trigger": sds_max_offsets,
                "interval_ms": sds_interval_ms,
                "cache_entries": sds_cache_entries,
            },
            "quick_start": quick_start,
            "metrics_port": metrics_port,
            "metrics_host": metrics_host,
        },
    }
    settings = kafka.load(**flags)
    if settings.job.metrics_port_of(which) is None:
        refuse(context, ["metrics_host"], "goes with --metrics-port")
    log_lines.set_up(settings.log_format)
    reached = resolve_kafka(settings)
    with announced_wait(reached):
        _check_topics(reached, jobs)
    log_file = stack_directory(settings) / "logs" / f"spark-{deployment_name(settings)}-{which}.log"
    run_settings = _run_settings(settings, reached, jobs, once=once, interval_ms=interval_ms)
    try:
        _run(settings, which, run_settings, spark_option, log_file)
    except (StreamingError, TopicsError) as error:
        print_error(error)
        say(f"Spark's log: {log_file}")
        raise typer.Exit(exit_status(error)) from error


def chosen_jobs(chosen: Sequence[str]) -> tuple[str, ...]:
    """Return the names of these jobs and of these groups' jobs, each once. Raises `typer.BadParameter`."""
    jobs: dict[str, None] = {}
    for name in chosen:
        try:
            jobs.update(dict.fromkeys(jobs_of(name)))
        except KeyError:
            near = get_close_matches(name, runnable_names(), n=1)
            advice = f"did you mean {near[0]}?" if near else "see `culm job list`"
            raise typer.BadParameter(f"no job or group is called {name[:80]!r}: {advice}") from None
    return tuple(jobs)


def job_settings(settings: CulmSettings, jobs: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of those jobs that the command line configures; other jobs use their defaults."""
    return {job: load(JOB_SETTINGS[job])(settings) for job in jobs if job in JOB_SETTINGS}


def _run_settings(
    settings: CulmSettings, kafka: KafkaSettings, jobs: tuple[str, ...], *, once: bool, interval_ms: int
) -> RunSettings:
    from culm_streaming.supervision.queries import RunSettings

    return RunSettings(
        kafka=kafka,
        checkpoints=settings.job.checkpoints or str(_default_checkpoints(settings)),
        jobs=jobs,
        job_settings=job_settings(settings, jobs),
        once=once,
        interval_ms=interval_ms,
        stall_seconds=settings.job.stall_seconds,
    )


def _run(
    settings: CulmSettings,
    which: str,
    run_settings: RunSettings,
    spark_option: list[str] | None,
    log_file: Path,
) -> None:
    from culm_infra.running import job_socket
    from culm_streaming.metrics import JobHealth
    from culm_streaming.status import JobStatus
    from culm_topics.process_status import ProcessStatus

    health = JobHealth()
    fields = {
        "which": which,
        "jobs": list(run_settings.jobs),
        "master": settings.job.master,
        "checkpoints": run_settings.checkpoints,
        "spark_log": str(log_file),
    }
    status = JobStatus(ProcessStatus("job", run_settings.kafka), health, fields)
    with status.process.collect_warnings(), job_socket(settings, which, status.document):
        _refuse_beside(settings, run_settings)
        _run_in_spark(settings, which, run_settings, spark_option, log_file, health, status)


def _refuse_beside(settings: CulmSettings, run_settings: RunSettings) -> None:
    """Raise `InfraError` if another process on this machine runs one of these jobs with this checkpoint.

    Both would write the same offsets and state, and one of them would fail later with an error of Spark.
    """
    from culm_infra.running import running_jobs
    from culm_topics.status_socket import StatusSocketError

    with suppress(StatusSocketError):  # a process that does not answer does not keep a job from its start
        for other in running_jobs(settings):
            shared = [job for job in run_settings.jobs if job in other["jobs"]]
            is_same = shared and other["checkpoints"] == run_settings.checkpoints
            if is_same and other["pid"] != os.getpid():
                raise InfraError(
                    f"the process {other['pid']} already runs {', '.join(shared)} "
                    f"with the checkpoints in {run_settings.checkpoints}",
                    hint="`culm job status` shows it; stop it first, or run other jobs",
                )


def _run_in_spark(
    settings: CulmSettings,
    which: str,
    run_settings: RunSettings,
    spark_option: list[str] | None,
    log_file: Path,
    health: JobHealth,
    status: JobStatus,
) -> None:
    from culm_infra.settings import named_values
    from culm_infra.stack import find_java, jars
    from culm_infra.stack.class_archive import spark_options
    from culm_streaming.errors import StreamingError
    from culm_streaming.metrics import JobMetrics
    from culm_streaming.run import run_jobs
    from culm_streaming.session import SparkSessionSettings, start_session
    from culm_topics.status_server import serve_status

    java = find_java()
    session = start_session(
        SparkSessionSettings(
            jars=[*jars.ensure("spark", java=java), *_file_system_jars(run_settings.checkpoints)],
            master=settings.job.master,
            java_home=java.home,
            driver_memory_mb=settings.job.driver_memory_mb,
            quick_start=settings.job.quick_start,
            java_options=spark_options(java) if settings.job.quick_start else (),
            state_partitions=settings.job.state_partitions,
            log_file=log_file,
            options=named_values("--spark-option", spark_option or [], example="spark.ui.enabled=true"),
        )
    )
    metrics = JobMetrics()
    stop, received = Event(), []

    def on_signal(number: int, _frame: object) -> None:
        # A second signal ends the process at once.
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        stop.set()

    # Install the handlers after Spark has started, because Spark installs one for SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    say(f"jobs: {', '.join(run_settings.jobs)}; checkpoints: {run_settings.checkpoints}; Spark: {log_file}")
    with ExitStack() as stack:
        stack.callback(_stop_session, session)
        if (metrics_port := settings.job.metrics_port_of(which)) is not None:
            host = settings.job.metrics_host
            bound = stack.enter_context(
                serve_status(
                    host,
                    metrics_port,
                    metrics.registry,
                    # At once, also while the latest micro-batch ends.
                    why_not_ready=lambda: ("stopping",) if stop.is_set() else health.reasons,
                    port_error=StreamingError,
                )
            )
            status.metrics_address = f"{host}:{bound}"
            say(f"metrics on http://{host}:{bound}/metrics, health on /livez and /readyz")
        run_jobs(session, run_settings, stop=stop, metrics=metrics, health=health, status=status)
    if signal.SIGINT in received:
        raise typer.Exit(_EXIT_INTERRUPTED)


def _stop_session(session: SparkSession) -> None:
    from culm_streaming.supervision.spark_end import has_ended

    if not has_ended(session):
        session.stop()


def _file_system_jars(checkpoints: str) -> list[Path]:
    """Return the jars of the checkpoints' file system if they were fetched; else the job's error names the
    command.
    """
    from culm_infra.stack import jars
    from culm_infra.stack.coordinates import FILE_SYSTEMS

    name = FILE_SYSTEMS.get(checkpoints.partition("://")[0])
    if name is None or any(state == "missing" for _, state in jars.status(name)):
        return []
    return jars.ensure(name)


def _check_topics(kafka: KafkaSettings, jobs: tuple[str, ...]) -> None:
    from culm_topics.catalogue.jobs import job_named
    from culm_topics.catalogue.topics import spec
    from culm_topics.kafka import admin

    named = [job_named(job) for job in jobs]
    names = sorted({name for job in named for name in (*job.reads, *job.writes)})
    states = admin.list_topics(kafka, [spec(name) for name in names])
    missing = [state.full_name for state in states if not state.exists]
    if missing:
        raise InfraError(
            f"topics are missing: {', '.join(missing)}", hint="create them: `culm topics create`"
        )


def _default_checkpoints(settings: CulmSettings) -> Path:
    """Return the folder of this prefix: offsets of one deployment's topics mean nothing in another's."""
    from culm_infra.running import deployment_name
    from culm_infra.settings import stack_directory

    return stack_directory(settings) / "checkpoints" / deployment_name(settings)


app = noun("List and run the streaming jobs.", {"list": list_, "run": run, "status": "status.job:status"})
