"""Reads the topic `rejected`, and selects records by code, origin and peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from culm_infra.cli.kit.options import public_key, words
from culm_infra.cli.kit.start_at import StartAt, start_offsets
from culm_infra.rejections.records import PROTOCOLS, TOPIC, TOPIC_NAMES, Rejection
from culm_topics.errors import RecordError
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_until

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionFilter:
    """Options that select records of `rejected`; a record must match each option that is given."""

    code: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Only this code, or the codes below it (`bamboo`); repeatable."),
    ] = None
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Only records of this topic, such as entries; repeatable.",
            autocompletion=words(*sorted(TOPIC_NAMES)),
        ),
    ] = None
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(PROTOCOLS),
            help="Only data of this protocol; `logs` are p2panda's and Bamboo's; repeatable.",
            autocompletion=words(*PROTOCOLS),
        ),
    ] = None
    peer: Annotated[
        list[str] | None, typer.Option(metavar="PEER_ID", help="Only data from this peer; repeatable.")
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether every record is selected."""
        return not (self.code or self.topic or self.protocol or self.peer)

    def selection(self) -> RejectionSelection:
        """Check the options. Raises `typer.BadParameter`."""
        for name in self.topic or ():
            if name not in TOPIC_NAMES:
                raise typer.BadParameter(
                    f"{name[:80]!r} is not a topic of the catalogue: `culm topics list` has them, with "
                    "the prefix",
                    param_hint="--topic",
                )
        for name in self.protocol or ():
            if name not in PROTOCOLS:
                raise typer.BadParameter(
                    f"{name[:80]!r} is not one of {', '.join(PROTOCOLS)}", param_hint="--protocol"
                )
        for name in self.code or ():
            if not name.strip("."):
                raise typer.BadParameter("a code is missing", param_hint="--code")
        peers = [public_key(peer, "--peer") for peer in self.peer or ()]
        return RejectionSelection(
            tuple(self.code or ()),
            frozenset(self.topic or ()),
            frozenset(self.protocol or ()),
            frozenset(peers),
        )


@dataclass(frozen=True, slots=True)
class RejectionSelection:
    """The selected codes, topics, protocols and peers; an empty set selects all."""

    codes: tuple[str, ...] = ()
    topics: frozenset[str] = frozenset()
    protocols: frozenset[str] = frozenset()
    peers: frozenset[bytes] = frozenset()

    def selects(self, rejection: Rejection) -> bool:
        """Whether the record matches."""
        code = rejection.record.code
        return (
            (not self.codes or any(code == name or code.startswith(f"{name}.") for name in self.codes))
            and (not self.topics or rejection.topic in self.topics)
            and (not self.protocols or rejection.protocol in self.protocols)
            and (not self.peers or rejection.record.brought_by in self.peers)
        )


def read_rejections(
    kafka: KafkaSettings,
    start: StartAt,
    selection: RejectionSelection,
    passed_over: PassedOver,
    *,
    follow: bool,
) -> Iterator[Rejection]:
    """Yield the selected records of `rejected` from a place on, up to the present end unless `follow`.

    Malformed records are skipped and added to `passed_over`. Raises the errors of `start_offsets`.
    """
    # Retention may remove records while they are read.
    with TopicPartitions(kafka, TOPIC, defaults={"auto.offset.reset": "earliest"}) as reader:
        ends = reader.read_from(start_offsets(start, reader))
        messages = _follow(reader) if follow else read_until(reader, ends)
        for message in messages:
            try:
                rejection = Rejection.read(message, kafka.prefix)
            except RecordError as error:
                passed_over.add(message, error)
                continue
            if selection.selects(rejection):
                yield rejection


def _follow(reader: TopicPartitions) -> Iterator[TopicMessage]:
    while True:
        yield from reader.poll(_POLL_SECONDS)
