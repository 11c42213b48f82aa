"""``culm rejected tail``: list and follow refused data."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, emit_json, out
from culm_infra.cli.kit.start_at import From, parse_start
from culm_infra.cli.rejected.records import RejectionFilter, read_rejections
from culm_infra.cli.rejected.shown import line_of, row_of
from culm_infra.rejections.records import TOPIC
from culm_topics.readers.batch import PassedOver


def tail(
    *,
    kafka: KafkaFlags,
    chosen: RejectionFilter,
    since: From = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new records, until interrupted.")
    ] = False,
    results: Results,
) -> None:
    """List what was refused: time, place, code, origin, peer and detail; with `--follow` as it happens.

    Without `--from`, everything on the topic is listed; with `--follow`, only what comes from now on. The
    place is the argument of `culm rejected show` and `replay`. The origin is the topic from which a refused
    record was read, or in parentheses the protocol of data that a peer sent.

    Example: `culm rejected tail --from 1h --code bamboo.fork`
    """
    start = parse_start(("now" if follow else "beginning") if since is None else since)
    selection = chosen.selection()
    passed_over = PassedOver(TOPIC)
    settings = kafka.settings()
    if follow:
        results.say("waiting for refused data; interrupt to stop")
    shown, last = 0, None
    for rejection in read_rejections(settings, start, selection, passed_over, follow=follow):
        if results.json:
            emit_json(row_of(rejection))
        else:
            out.print(line_of(rejection))
        shown, last = shown + 1, rejection
        if shown == count:
            break
    results.passed_over(passed_over)
    if last is None:
        results.say("nothing was refused" if chosen.is_empty and since is None else "no refused data matches")
    elif not follow:
        results.next(f"culm rejected show {last.place}")
