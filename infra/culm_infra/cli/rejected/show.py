"""``culm rejected show``: one refused item whole."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, emit_json, out
from culm_infra.cli.kit.start_at import parse_place
from culm_infra.cli.rejected.shown import lines_of, whole_row_of
from culm_infra.rejections.decoded import decoded_forms
from culm_infra.rejections.records import rejections_at


def show(
    place: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="The record, as `culm rejected tail` lists it.")
    ],
    *,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show one record of `rejected` whole: all fields, the refused bytes as hex, and their decoded form.

    Bytes are decoded as a record of the topic that they come from, or with the codecs of their protocol (the
    operations of `culm conform`); malformed bytes have no decoded form.

    Example: `culm rejected show 0:17`
    """
    where = parse_place(place, "PARTITION:OFFSET")
    (rejection,) = rejections_at(kafka.settings(), [where])
    decoded = decoded_forms(rejection)
    if results.json:
        emit_json(whole_row_of(rejection, decoded))
        return
    for line in lines_of(rejection, decoded):
        out.print(line)
    if rejection.record.source is not None:
        results.next(f"culm rejected replay {rejection.place}")
