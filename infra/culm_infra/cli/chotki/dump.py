"""``culm chotki dump``: the whole state in the text form of the Go replica."""

from __future__ import annotations

import sys

from culm_infra.cli import options
from culm_infra.cli.chotki.reading import whole_state
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json


@spread
def dump(*, kafka: KafkaFlags, json: options.Json = False) -> None:
    """Print every field and vector as the Go replica dumps its store, so that `diff` compares them.

    With `--json` each record of the store is an object: its key and value in hex, and the value's text.

    Example: `culm chotki dump > ours.txt`
    """
    from culm_models.chotki.dump import dump_lines, print_field

    with whole_state(kafka.settings(), json=json) as reader:
        store = sorted(reader.state.store().items())
    if json:
        for key, value in store:
            letter = chr(key[17])
            emit_json({"key": key, "type": letter, "text": print_field(letter, value), "value": value})
    else:
        sys.stdout.writelines(dump_lines(store))
        sys.stdout.flush()
