"""``culm rejected replay``: produce refused records again, after the cause of their refusal was fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, out, safe
from culm_infra.cli.kit.start_at import From, parse_place, parse_start
from culm_infra.cli.rejected.originals import Original, find_originals
from culm_infra.cli.rejected.records import RejectionFilter, read_rejections
from culm_infra.cli.rejected.shown import source_row_of
from culm_infra.rejections.records import TOPIC, rejections_at
from culm_topics.errors import KafkaFailure
from culm_topics.readers.batch import PassedOver

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

Outcome = Literal["ready", "produced", "copy", "refused"]

_ARGUMENT = "PARTITION:OFFSET"
_FLUSH_SECONDS = 60.0
_WRITE_HINT = "producing needs the right Write on that topic: `culm topics acls` lists who has it"


def replay(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar=_ARGUMENT, help="Records, as `culm rejected tail` lists them."),
    ] = None,
    *,
    kafka: KafkaFlags,
    chosen: RejectionFilter,
    since: From = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Produce the records; without it they are only listed.")
    ] = False,
    results: Results,
) -> None:
    """Produce the original records again, to the topic and the partition that they came from.

    Give records, or select them with `--code`, `--topic`, `--protocol`, `--peer` and `--from`. The original
    is read from its topic. A record that retention has removed, and data that never reached a topic, cannot
    be replayed: each is listed with the reason, and the exit status is 3. Equal records are produced once.
    Each record is checked again, so fix the cause of its refusal first.

    Example: `culm rejected replay --code coverage --from 2h`, then the same with `--apply`
    """
    is_selected = not chosen.is_empty or since is not None
    if places and is_selected:
        raise typer.BadParameter("give either records or options that select them", param_hint=_ARGUMENT)
    if not places and chosen.is_empty:
        raise typer.BadParameter("give records, or select them with --code", param_hint=_ARGUMENT)
    selection, passed_over = chosen.selection(), PassedOver(TOPIC)
    start = parse_start("beginning" if since is None else since)
    wanted = [parse_place(place, _ARGUMENT) for place in places or ()]
    settings = kafka.settings()
    rejections = (
        rejections_at(settings, wanted)
        if wanted
        else read_rejections(settings, start, selection, passed_over, follow=False)
    )
    report = _Report(results)
    originals = find_originals(settings, rejections)
    if apply:
        _produce(settings, originals, report)
    else:
        for original in originals:
            report.add(original, _outcome_of(original))
    results.passed_over(passed_over)
    report.end(is_applied=apply)


class _Report:
    """Prints each outcome, and counts them."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._counts: Counter[Outcome] = Counter()

    def add(self, original: Original, outcome: Outcome, *, produced_offset: int | None = None) -> None:
        """Print the outcome for one record."""
        self._counts[outcome] += 1
        rejection, message = original.rejection, original.message
        size = None if message is None else len(message.key) + len(message.value)
        if self._results.json:
            row: dict[str, Any] = {
                "partition": rejection.partition,
                "offset": rejection.offset,
                "code": rejection.record.code,
                "outcome": outcome,
                "source": source_row_of(rejection),
                "bytes": size,
                "produced_offset": produced_offset,
                "reason": original.reason,
            }
            emit_json(row)
            return
        source = rejection.record.source
        where = "" if source is None else f"{source[0]} partition {source[1]}"
        text = {
            "ready": f"would produce {size} bytes to {where}",
            "produced": f"produced {size} bytes to {where}, offset {produced_offset}",
            "copy": f"left out: {original.reason}",
            "refused": f"cannot be replayed: {original.reason}",
        }[outcome]
        out.print(safe(f"{rejection.place:<8}  {rejection.record.code:<28}  {text}", 1_000))

    def end(self, *, is_applied: bool) -> None:
        """Print the counts. Raises `typer.Exit` with status 3 if a record cannot be replayed."""
        counts = self._counts
        if not counts:
            self._results.say("no refused data matches: nothing to replay")
            return
        done = counts["produced"] if is_applied else counts["ready"]
        words = [f"{done} {'record' if done == 1 else 'records'} {'' if is_applied else 'would be '}produced"]
        if counts["copy"]:
            words.append(f"{counts['copy']} left out as copies")
        if counts["refused"]:
            words.append(f"{counts['refused']} cannot be replayed")
        self._results.say("; ".join(words))
        if done and not is_applied:
            self._results.say("next: the same command with [bold]--apply[/]")
        elif done:
            self._results.next("culm rejected tail --from 1m")
        if counts["refused"]:
            raise typer.Exit(EXIT_DEGRADED)


def _outcome_of(original: Original) -> Outcome:
    if original.message is None:
        return "refused"
    return "ready" if original.reason is None else "copy"


def _produce(settings: KafkaSettings, originals: Iterable[Original], report: _Report) -> None:
    """Produce the originals that are there. Returns when Kafka has them. Raises `KafkaFailure`."""
    from culm_topics.kafka.clients import producer

    client = producer(settings, bulk=True)
    failures: list[str] = []

    def on_delivery(original: Original, error: Any, message: Any) -> None:
        if error is not None:
            failures.append(f"{message.topic()} partition {message.partition()}: {error.str()}")
        else:
            report.add(original, "produced", produced_offset=message.offset())

    for original in originals:
        message, outcome = original.message, _outcome_of(original)
        if message is None or outcome != "ready":
            report.add(original, outcome)
            continue
        assert original.rejection.topic is not None, "a message was read from it"
        topic = settings.topic(original.rejection.topic)
        while True:
            try:
                client.produce(
                    topic,
                    message.value,
                    message.key or None,
                    message.partition,
                    on_delivery=partial(on_delivery, original),
                )
                break
            except BufferError:
                client.poll(1.0)
        client.poll(0)
        if failures:
            break
    left = client.flush(_FLUSH_SECONDS)
    if failures:
        raise KafkaFailure(f"not produced: {failures[0]}", passes=False, hint=_WRITE_HINT)
    if left:
        raise KafkaFailure(f"{left} records were not acknowledged within {_FLUSH_SECONDS:.0f} s")
