"""``culm sds fetch``: messages from the store, by id or by retrieval hint."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, emit_json, out, safe, say
from culm_infra.cli.sds.channel import Channel, check_channel, open_index
from culm_infra.cli.sds.lines import content_text
from culm_infra.errors import InfraError
from culm_models.sds.wire.codec import decode
from culm_topics.sds.keys import is_id
from culm_topics.sds.retrieval_hints import StoreHint
from culm_topics.sds.store import SdsStore, StoredMessage

_HINT = re.compile(r"4b[0-9a-f]{32}", re.IGNORECASE)


def fetch(
    channel: Channel,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="ID|HINT", help="A message's id, or a retrieval hint of ours in hex (34 digits)."
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the message's bytes to this file; - prints them."),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print a message of a channel from the store.

    An id is looked up in the index, which is kept in the user's cache and updated first; a hint leads to the
    message directly.

    Example: `culm sds fetch general 2c26b46b...`, `culm sds fetch general 4b00000003... -o message.bin`
    """
    check_channel(channel)
    if output is not None and results.json:
        raise typer.BadParameter("--output writes the message's bytes as they are", param_hint="--json")
    stored = _by_hint(kafka, channel, wanted) if _HINT.fullmatch(wanted) else _by_id(kafka, channel, wanted)
    if output is not None:
        if str(output) == "-":
            sys.stdout.buffer.write(stored.wire)
        else:
            with new_path(output, replaces_file=True) as path:
                path.write_bytes(stored.wire)
            say(f"{len(stored.wire)} bytes in {safe(output)}")
        return
    row = _row(channel, stored)
    if results.json:
        emit_json(row)
    else:
        _show(row)


def _by_id(flags: KafkaFlags, channel: str, message_id: str) -> StoredMessage:

    if not is_id(message_id):
        raise InfraError(f"no message's id has {len(message_id.encode())} bytes", hint="give the whole id")
    kafka = flags.settings()
    with open_index(kafka, channel) as index, SdsStore(kafka, index) as store:
        stored = store.by_ids(channel, [message_id]).found.get(message_id)
        if stored is not None:
            return stored
        if index.find(channel, [message_id]):
            raise InfraError(
                f"the store does not have message {message_id!r} where the index says it is",
                hint="was the topic of the store created again? `culm topics check` reports differences",
            )
        count = index.count(channel)
    raise InfraError(
        f"message {message_id!r} is not in the index of channel {channel!r}, which has {count}",
        hint="give the complete id; is `culm job run sds` running? Its job sds-index writes the index",
    )


def _by_hint(flags: KafkaFlags, channel: str, text: str) -> StoredMessage:

    hint = StoreHint.parse(bytes.fromhex(text))
    if hint is None:
        raise InfraError(
            f"{text} is no retrieval hint of ours", hint="4b, 8 digits of the partition, 16 of the offset, 8"
        )
    with SdsStore(flags.settings(), None) as store:
        stored = store.by_hint(channel, hint)
    if stored is None:
        raise InfraError(
            f"the hint leads to no message of channel {channel!r}",
            hint="is it this channel's, and of this deployment? Else fetch the message by its id",
        )
    return stored


def _row(channel: str, stored: StoredMessage) -> dict[str, Any]:

    message = decode(stored.wire, stored.profile)
    return {
        "channel": channel,
        "profile": stored.profile,
        "message_id": stored.message_id,
        "sender_id": stored.sender_id,
        "lamport_timestamp": stored.lamport_timestamp,
        "hint": stored.hint,
        "foreign_hint": stored.foreign_hint,
        "causal_history": [entry.message_id for entry in message.causal_history],
        "bloom_bytes": len(message.bloom_filter or b""),
        "bytes": len(stored.wire),
        "content": message.content,
        "text": content_text(message.content or b""),
    }


def _show(row: dict[str, Any]) -> None:
    for name, value in row.items():
        if name == "content" or value is None:
            continue
        text = value.hex() if isinstance(value, bytes) else value
        if name == "causal_history":
            text = ", ".join(value) or "none"
        out.print(f"{name.replace('_', ' '):<18} {safe(text)}")
