"""``culm sds transfer``: an operator gives a hosted id, or a channel, to another key."""

from __future__ import annotations

import secrets
import shlex
from typing import Annotated

import typer

from culm_infra.cli.kit.options import KafkaFlags, from_hex
from culm_infra.cli.kit.output import Results, emit_json, safe, say
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.participation import ProfileName, check_participant
from culm_infra.errors import InfraError
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.sds.keys import channel_key, shard_of
from culm_topics.sds.records import TOKEN_SIZE, SdsCommand, SdsCommandRecord

_PEER_ID_BYTES = 32
_TIMEOUT_S = 30.0
_OPERATOR = "operator"


def transfer(
    channel: Channel,
    peer_id: Annotated[str, typer.Argument(metavar="PEER_ID", help="The new owner: 64 hex digits.")],
    *,
    participant: Annotated[
        str | None, typer.Option(help="The hosted id that changes hands; without it the channel does.")
    ] = None,
    profile: ProfileName = "spec",
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Give a hosted participant's id to another key, or a channel to a new owner.

    A hosted id belongs to the first key that joined as it, a channel to its first member, who decided its
    profile and its settings. If the channel has another profile than `--profile`, it restarts with an empty
    log.

    Example: `culm sds transfer general 9f86d0… --participant ben`
    """
    check_channel(channel)
    owner = from_hex(peer_id, "PEER_ID")
    if len(owner) != _PEER_ID_BYTES:
        raise InfraError(
            f"a peer id of {len(owner)} bytes", hint="it is 64 digits, as `culm connector id` prints them"
        )
    kind: SdsCommand = "open" if participant is None else "transfer"
    record = SdsCommandRecord(
        kind,
        profile,
        _OPERATOR if participant is None else check_participant(participant),
        secrets.token_bytes(TOKEN_SIZE),
        owner,
    )
    _write(kafka.settings(), channel, record)
    if results.json:
        emit_json({"channel": channel, "kind": kind, "participant_id": participant, "peer_id": owner})
    else:
        say(f"requested: the job sds gives {safe(participant or channel)} to {owner.hex()[:16]}…")
    results.next(f"culm sds status {shlex.quote(channel)}")


def _write(kafka: KafkaSettings, channel: str, record: SdsCommandRecord) -> None:

    with TopicPartitions(kafka, "sds.commands") as topic:
        partition = shard_of(channel, topic.count())
    failures: list[object] = []
    client = producer(kafka)
    client.produce(
        kafka.topic("sds.commands"),
        record.encode(),
        channel_key(channel),
        partition=partition,
        on_delivery=lambda error, _: failures.append(error) if error is not None else None,
    )
    if client.flush(_TIMEOUT_S) or failures:
        why = failures[0] if failures else "no answer in time"
        raise InfraError(f"the command was not taken: {why}", hint="is the broker reachable?")
