"""``culm logs tail``, ``list`` and ``export``: the entries of the replicated logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.log_names import parse_full_log_name
from culm_infra.cli.kit.options import KafkaFlags, public_key
from culm_infra.cli.kit.output import (
    EXIT_DEGRADED,
    NOTHING_REPLICATED,
    Results,
    counting,
    emit_json,
    out,
    safe,
    say,
)
from culm_infra.cli.kit.start_at import From, StartAt, parse_start, start_offsets
from culm_infra.cli.logs.output import as_json, as_text, writer
from culm_topics.logs.consumer import LogConsumer, LogEntry, LogProblem

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings
    from culm_topics.logs.consumer.assignment import Start

_PROGRESS_EVERY = 500
_SHOWN_PROBLEMS = 20


Bare = Annotated[bool, typer.Option("--bare", help="Include bare logs, whose payloads are not operations.")]
Sparse = Annotated[bool, typer.Option("--sparse", help="Entries of bare logs with gaps before them, too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """Filter of the logs that a command reads."""

    schema: options.OnlySchemas = None
    author: Annotated[
        list[str] | None, typer.Option(metavar="PUBLIC_KEY", help="Only this author (hex); repeatable.")
    ] = None
    log: Annotated[
        list[str] | None, typer.Option(metavar="KEY/LOG_ID", help="Only this log; repeatable.")
    ] = None

    def consumer(self, kafka: KafkaFlags, *, start: StartAt = "beginning", **arguments: Any) -> LogConsumer:
        """Return a consumer of these logs. Raises `typer.BadParameter`, and the errors of `start_offsets`."""
        authors = [public_key(text, "--author") for text in self.author] if self.author else None
        logs = [parse_full_log_name(text) for text in self.log] if self.log else None
        # The command itself reports skipped records.
        arguments.setdefault("on_problem", lambda _: None)
        settings = kafka.settings()
        return LogConsumer(
            settings,
            schema_ids=self.schema or None,
            public_keys=authors,
            logs=logs,
            start=_consumer_start(start, settings),
            **arguments,
        )


def tail(
    *,
    kafka: KafkaFlags,
    selection: LogSelection,
    since: From = "now",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")] = None,
    bare: Bare = False,
    sparse: Sparse = False,
    results: Results,
) -> None:
    """Print entries as they are replicated, until interrupted. Without `--from`, only new ones.

    `logs` has several partitions, and each has offsets of its own: `--from 3:1200` starts at offset 1200 of
    partition 3 and at the end of the others, `--from 0:7,1:9` names two, and a time applies to all. With
    `--json` each entry has its partition and offset. An entry that repeats one before the start may be
    printed.

    Example: `culm logs tail --from beginning --schema schema_definition_v1`, `culm logs tail --from 2h`
    """
    start = parse_start("now" if since is None else since, "PARTITION:OFFSET")
    left = count
    consumer = selection.consumer(
        kafka,
        start=start,
        bare_logs=bare,
        sparse=sparse,
        on_problem=lambda problem: _show_problem(problem, results),
    )
    results.say("waiting for entries; interrupt to stop")
    with consumer:
        for entry in consumer:
            if results.json:
                emit_json(as_json(entry))
            else:
                out.print(safe(as_text(entry)))
            if left is not None:
                left -= 1
                if left == 0:
                    return


def _consumer_start(start: StartAt, settings: KafkaSettings) -> Start:
    """Return the start of a consumer. Raises the errors of `start_offsets`."""
    from culm_topics.readers.partitions import TopicPartitions

    if start == "beginning":
        return "beginning"
    if start == "now":
        return "end"
    with TopicPartitions(settings, "logs") as reader:
        return start_offsets(start, reader)


def export(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write: .jsonl, .ndjson or .parquet; - prints JSON Lines."
        ),
    ] = Path("-"),
    kafka: KafkaFlags,
    selection: LogSelection,
    bare: Bare = False,
    sparse: Sparse = False,
) -> None:
    """Write all present entries to a file, each log in sequence order.

    A log with a missing entry is written up to the gap, and malformed records are skipped; the exit status is
    then 3. With `--bare` or `--sparse`, a Parquet file has columns for the flavour of each entry's log, for
    gaps before the entry, and for whether `operation` contains its payload.

    Example: `culm logs export --output logs.parquet`
    """

    def consumer() -> LogConsumer:
        return selection.consumer(kafka, stop_at_end=True, bare_logs=bare, sparse=sparse)

    if str(output) == "-":
        with consumer() as entries:
            for entry in entries:
                emit_json(as_json(entry))
            _show_problems(entries, Results())
        return
    exported = 0
    with writer(output, bare=bare or sparse) as write, consumer() as entries:
        for entry in _counted(entries):
            write(entry)
            exported += 1
    say(f"{exported} entries in {safe(output)}")
    _show_problems(entries, Results())


def list_(
    *,
    kafka: KafkaFlags,
    selection: LogSelection,
    bare: Bare = False,
    results: Results,
) -> None:
    """List every log with its height and its schema, read from the topic itself.

    A log with a missing entry is listed with its height below the gap; the exit status is then 3. A bare log
    has no schema; with `--bare` the flavour of every log is listed.

    Example: `culm logs list --author 2f8e...`
    """
    heights: dict[tuple[bytes, int, str], tuple[int, str]] = {}
    with selection.consumer(kafka, stop_at_end=True, bare_logs=bare) as consumer:
        for entry in _counted(consumer):
            log = entry.public_key, entry.log_id, entry.flavour.name
            heights[log] = (entry.seq_num, entry.schema_id)
    names = ("public_key", "log_id", "height", "schema_id", "flavour")[: 5 if bare else 4]
    rows = [
        dict(zip(names, (key.hex(), log_id, height, schema_id, flavour), strict=False))
        for (key, log_id, flavour), (height, schema_id) in sorted(heights.items())
    ]
    results.rows(rows, names)
    if not rows:
        results.say(NOTHING_REPLICATED)
    _show_problems(consumer, results)


def _counted(consumer: LogConsumer) -> Iterator[LogEntry]:
    """Yield the entries of a consumer that stops at the end; a progress display counts the records read."""
    total = consumer.remaining_records()
    with counting("records read", total) as count:
        for number, entry in enumerate(consumer):
            yield entry
            if number % _PROGRESS_EVERY == 0:
                count(completed=total - consumer.remaining_records())
        count(completed=total)


def _show_problems(consumer: LogConsumer, results: Results) -> None:
    """Report skipped records and logs set aside. Raises `typer.Exit` with status 3 if there are any."""
    for problem in consumer.logs_set_aside[:_SHOWN_PROBLEMS]:
        _show_problem(problem, results)
    more = len(consumer.logs_set_aside) - _SHOWN_PROBLEMS
    if more > 0:
        say(f"[yellow]{more} more logs are set aside[/]")
    if consumer.bad_records:
        if results.json:
            emit_json({"problem": "topics.record", "topic": "logs", "records": consumer.bad_records})
        say(f"[yellow]{consumer.bad_records} malformed records of `logs` were skipped[/]")
    if consumer.logs_set_aside or consumer.bad_records:
        raise typer.Exit(EXIT_DEGRADED)


def _show_problem(problem: LogProblem, results: Results) -> None:
    if results.json:
        author, log_id = problem.log or (None, None)
        emit_json(
            {
                "problem": problem.code,
                "topic": "logs",
                "message": str(problem.error),
                "partition": problem.partition,
                "offset": problem.offset,
                "public_key": author,
                "log_id": log_id,
                "missing_seq_num": problem.missing_seq_num,
            }
        )
        return
    what = "passed over" if problem.log is None else "set aside until it is whole"
    say(f"[yellow]{what}: {safe(problem.error)} ({problem.code})[/]")
