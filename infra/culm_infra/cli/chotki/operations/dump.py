"""``culm chotki dump``: the whole state, or a replica's store, in the text form of the Go replica."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from culm_infra.cli.chotki.completion import complete_url
from culm_infra.cli.chotki.operations.replica import Key, Silence, check_address, read_replica
from culm_infra.cli.chotki.reading import whole_state
from culm_infra.cli.options import KAFKA_FLAGS, KafkaFlags, refuse
from culm_infra.cli.output import emit_json
from culm_infra.cli.results import Results
from culm_models.chotki.dump import dump_lines, print_field


def dump(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]",
            help="A running replica instead: tcp://, tls:// or quic://HOST:PORT.",
            autocompletion=complete_url,
        ),
    ] = None,
    *,
    directory: Key = None,
    silence_s: Silence = 60.0,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print every field and vector as the Go replica dumps its store, so that `diff` compares them.

    What is printed is the deployment's state, or what the replica at an address holds, which is only read.
    With `--json` each record of the store is an object: its key and value in hex, and the value's text.

    Example: `culm chotki dump > ours.txt`, `culm chotki dump tcp://replica.example:4321 > theirs.txt`
    """
    if url is None:
        refuse(context, ["directory", "silence_s"], "is about a replica: give its URL")
        with whole_state(kafka.settings(), results) as reader:
            values = reader.state.store()
    else:
        refuse(context, KAFKA_FLAGS, "is about the deployment: a replica is read at its URL")
        check_address(url)
        values = read_replica(url, kafka.load(connector={"directory": directory}), silence_s).store
    store = sorted(values.items())
    if results.json:
        for key, value in store:
            letter = chr(key[17])
            emit_json({"key": key, "type": letter, "text": print_field(letter, value), "value": value})
    else:
        sys.stdout.writelines(dump_lines(store))
        sys.stdout.flush()
