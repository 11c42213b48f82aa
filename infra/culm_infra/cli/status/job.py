"""``culm job status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from culm_infra.cli.job import chosen_jobs, complete_job
from culm_infra.cli.kit.options import StackFlags
from culm_infra.cli.kit.output import Results, emit_json, out, safe, say
from culm_infra.cli.status.text import (
    StatusDocument,
    ago,
    count,
    lag_text,
    line,
    process_lines,
    state_of,
    warning_lines,
)
from culm_infra.cli.status.watch import Watch, watched


def status(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB|GROUP]",
            help="Only processes that run this job, or all of this group.",
            show_default=False,
            autocompletion=complete_job,
        ),
    ] = None,
    *,
    watch: Watch = None,
    stack: StackFlags,
    results: Results,
) -> None:
    """Show the processes that run jobs on this machine: queries, rates, lag, latest progress, failures.

    Exit status 3: none runs, or one is not ready.

    Example: `culm job status all --json`
    """
    from culm_infra.running import running_jobs, socket_directory

    wanted = set(chosen_jobs(() if which is None else (which,)))
    settings = stack.load()

    def show() -> bool:
        documents = [document for document in running_jobs(settings) if wanted <= set(document["jobs"])]
        if not documents:
            what = "no jobs run" if which is None else f"nothing runs {safe(which)}"
            say(
                f"{what} here: no process serves a socket in {safe(socket_directory(settings))}; "
                f"`culm job run{'' if which is None else ' ' + safe(which)}` starts one"
            )
        for place, document in enumerate(documents):
            if results.json:
                emit_json(document)
                continue
            if place:
                out.print()
            for text in job_lines(document):
                out.print(text)
        return bool(documents) and all(document["ready"] for document in documents)

    watched(show, watch, json=results.json)


def job_lines(document: StatusDocument) -> Iterator[str]:
    """Yield the text about a process that runs jobs."""
    yield f"jobs {safe(document['which'])}: {state_of(document)}"
    yield from process_lines(document)
    yield line("Spark", f"{safe(document['master'])}, log {safe(document['spark_log'])}")
    yield line("checkpoints", safe(document["checkpoints"]))
    if document["metrics_address"] is not None:
        yield line("metrics", f"http://{safe(document['metrics_address'])}/metrics")
    for query in document["queries"]:
        yield from _query_lines(query)
    yield from warning_lines(document["warnings"])


def _query_lines(query: dict[str, Any]) -> Iterator[str]:
    facts = [
        "[yellow]stalled[/]" if query["stalled"] else safe(query["state"]),
        lag_text(query["lag"]),
        f"{count(query['rows_in'], 'record')} in {count(query['batches'], 'batch', 'batches')}",
    ]
    if query["rows_per_second"]:
        facts.append(f"{query['rows_per_second']} records/s")
    if query["rejected"]:
        facts.append(f"{query['rejected']} rejected")
    yield line(safe(query["job"]), " · ".join(facts))
    if (batch := query["latest_batch"]) is not None:
        yield (
            f"    micro-batch {batch['batch_id']}, {ago(query['last_progress_ms'])}: "
            f"{count(batch['rows_in'], 'record')} in {batch['duration_ms']} ms"
        )
    if (error := query["last_error"]) is not None:
        times = f"{count(query['failures'], 'failure')}, the latest {ago(error['time_ms'])}"
        yield f"    {times}: {safe(error['cause'])}"
