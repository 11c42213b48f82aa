"""``culm logs``: follow, list and export the replicated logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from culm_infra.cli import options
from culm_infra.cli.option_groups import KafkaFlags, spread
from culm_infra.cli.output import emit_json, out, print_table, progress, safe, say

if TYPE_CHECKING:
    from culm_topics.consumer import LogConsumer

app = typer.Typer(no_args_is_help=True, help="Follow, list and export the replicated logs.")

_PROGRESS_EVERY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which logs a command is about."""

    schema: Annotated[
        list[str] | None, typer.Option("--schema", metavar="SCHEMA_ID", help="Only this schema; repeatable.")
    ] = None
    author: Annotated[
        list[str] | None,
        typer.Option("--author", metavar="PUBLIC_KEY", help="Only this author (hex); repeatable."),
    ] = None
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="PUBLIC_KEY:LOG_ID", help="Only this log; repeatable."),
    ] = None

    def consumer(self, kafka: KafkaFlags, **arguments: Any) -> LogConsumer:
        """A consumer of these logs."""
        from culm_topics.consumer import LogConsumer

        authors = [_public_key(text, "--author") for text in self.author] if self.author else None
        logs = [_log(text) for text in self.log] if self.log else None
        return LogConsumer(
            kafka.settings(), schema_ids=self.schema or None, public_keys=authors, logs=logs, **arguments
        )


@app.command()
@spread
def tail(
    *,
    kafka: KafkaFlags,
    selection: Selection,
    since: Annotated[
        Literal["beginning", "end"],
        typer.Option("--from", help="Where to begin: at the first entry, or with what comes now."),
    ] = "end",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")] = None,
    json: options.Json = False,
) -> None:
    """Print entries as they are replicated, until interrupted.

    Example: `culm logs tail --from beginning --schema schema_definition_v1`
    """
    from culm_infra.cli.log_output import as_json, as_text

    left = count
    consumer = selection.consumer(kafka, start=since)
    with consumer:
        for entry in consumer:
            if json:
                emit_json(as_json(entry))
            else:
                out.print(safe(as_text(entry)))
            if left is not None:
                left -= 1
                if left == 0:
                    return


@app.command()
@spread
def export(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write: .jsonl, .ndjson or .parquet; - prints JSON Lines."
        ),
    ],
    kafka: KafkaFlags,
    selection: Selection,
) -> None:
    """Write every entry there is now to a file, each log in sequence order.

    Example: `culm logs export --output logs.parquet`
    """
    from culm_infra.cli.log_output import as_json, writer

    def consumer() -> LogConsumer:
        return selection.consumer(kafka, stop_at_end=True)

    if str(output) == "-":
        with consumer() as entries:
            for entry in entries:
                emit_json(as_json(entry))
        return
    exported = 0
    with writer(output) as write, consumer() as entries, progress() as display:
        total = entries.remaining_records()
        task = display.add_task("records read", total=total)
        for entry in entries:
            write(entry)
            exported += 1
            if exported % _PROGRESS_EVERY == 0:
                display.update(task, completed=total - entries.remaining_records())
        display.update(task, completed=total)
    say(f"{exported} entries in {safe(output)}")


@app.command("list")
@spread
def list_(
    *,
    kafka: KafkaFlags,
    selection: Selection,
    json: options.Json = False,
) -> None:
    """Every log with its height and its schema, read from the topic itself.

    Example: `culm logs list --author 2f8e...`
    """
    heights: dict[tuple[bytes, int], tuple[int, str]] = {}
    consumer = selection.consumer(kafka, stop_at_end=True)
    with consumer, progress() as display:
        total = consumer.remaining_records()
        task = display.add_task("records read", total=total)
        for number, entry in enumerate(consumer):
            heights[entry.public_key, entry.log_id] = (entry.seq_num, entry.schema_id)
            if number % _PROGRESS_EVERY == 0:
                display.update(task, completed=total - consumer.remaining_records())
    rows = [
        (public_key.hex(), log_id, height, schema_id)
        for (public_key, log_id), (height, schema_id) in sorted(heights.items())
    ]
    names = ("public_key", "log_id", "height", "schema_id")
    if json:
        for row in rows:
            emit_json(dict(zip(names, row, strict=True)))
        return
    print_table(None, names, rows)


def _public_key(text: str, option: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise typer.BadParameter(f"{text!r} is not a public key: 64 hexadecimal digits", param_hint=option)
    return key


def _log(text: str) -> tuple[bytes, int]:
    public_key, sign, number = text.partition(":")
    if not sign or not (number.isascii() and number.isdigit()) or int(number) >= 1 << 64:
        raise typer.BadParameter(f"{text!r} is not PUBLIC_KEY:LOG_ID", param_hint="--log")
    return _public_key(public_key, "--log"), int(number)
