"""One size for everybody: what is signed, taken, sent and read agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from culm_connectors.p2panda.settings import DriverSettings
from culm_models.bamboo.entry import MAX_ENTRY_SIZE
from culm_models.errors import CulmError
from culm_models.p2panda.errors import PeerSettingsError
from culm_models.p2panda.events import Withheld
from culm_models.p2panda.ingest import Ingest
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.codec import MessageStream, encode_entry_message
from culm_models.p2panda.wire.messages import LARGEST_READ_BYTES, MAX_MESSAGE_BYTES, MAX_OPERATION_BYTES
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import SCHEMA, author


def large_log() -> LogWriter:
    writer = LogWriter(author("large"), 0, SCHEMA)
    writer.append()
    writer.append({"data": bytes(MAX_OPERATION_BYTES)})
    writer.append()
    return writer


def test_every_reader_takes_the_largest_operation_with_the_largest_entry() -> None:
    message = encode_entry_message(2**64 - 1, bytes(MAX_ENTRY_SIZE), bytes(MAX_OPERATION_BYTES))
    assert len(message) <= MAX_MESSAGE_BYTES
    (read,) = MessageStream().feed(message)
    assert read.operation == bytes(MAX_OPERATION_BYTES)  # type: ignore[union-attr]


def test_no_edge_reads_less_than_peers_send() -> None:
    with pytest.raises(ValidationError):
        DriverSettings(max_message_bytes=MAX_MESSAGE_BYTES - 1)


def test_an_edge_that_reads_more_sends_no_more() -> None:
    assert PeerSettings(max_message_bytes=LARGEST_READ_BYTES).max_sent_bytes == MAX_MESSAGE_BYTES
    node = PeerSettings(compat="aquadoggo", max_message_bytes=LARGEST_READ_BYTES)
    assert node.max_sent_bytes == LARGEST_READ_BYTES


def test_an_oversized_operation_is_refused_and_what_a_store_holds_is_built_on() -> None:
    writer = large_log()
    store = MemoryLogStore()
    ingest = Ingest(store)
    assert ingest.stage(writer.entries[0])
    with pytest.raises(CulmError) as refused:
        ingest.stage(writer.entries[1])
    assert refused.value.code == "p2panda.operation.too_large"
    filled_store = MemoryLogStore()
    filled_store.append(writer.entries)
    assert Ingest(filled_store).stage(writer.append())


def test_a_peer_sends_a_log_up_to_its_oversized_entry_and_reports_it_once() -> None:
    ours, theirs = b"a" * 32, b"b" * 32
    store = MemoryLogStore()
    writer = large_log()
    store.append(writer.entries)
    store.append([LogWriter(author("small"), 0, SCHEMA).append()])
    sender, receiver = Peer(ours, store), Peer(theirs, MemoryLogStore())
    for peer, remote in ((sender, theirs), (receiver, ours)):
        peer.announce([SCHEMA], 1)
        peer.connect(remote, 1, dialled=peer is receiver)

    def exchange() -> None:
        while True:
            towards, back = sender.take_outgoing(theirs), receiver.take_outgoing(ours)
            if not towards and not back:
                return
            receiver.receive(ours, towards, 2)
            sender.receive(theirs, back, 2)

    exchange()
    receiver.sync(ours, 0, [SCHEMA], 2)
    exchange()
    later = writer.append()
    sender.publish(later.entry_bytes, later.payload_bytes, 3)
    exchange()
    assert sorted(height for _, _, height in receiver.store.log_heights([SCHEMA])) == [1, 1]
    withheld = [event for event in sender.take_events() if isinstance(event, Withheld)]
    assert [(event.log_id, event.seq_num) for event in withheld] == [(0, 2)]
    assert receiver.counts["rejected"] == 0


# Settings of a peer: what cannot be is refused with a code, also where assertions are off.


@pytest.mark.parametrize(
    "changed",
    [
        {"modes": ()},
        {"rule": "odd"},
        {"payload_threshold": 0},
        {"range_division": 1},
        {"lift": "xor64", "lifts": ("add128",)},
        {"lifts": ("add128", "md5")},
        *(
            {name: 0}
            for name in (
                "max_message_bytes",
                "max_events",
                "max_outgoing",
                "max_outgoing_bytes",
                "max_sessions_per_peer",
                "max_sessions",
                "max_schema_ids",
            )
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(PeerSettingsError) as refused:
        replace(PeerSettings(), **changed)
    assert refused.value.code == "p2panda.settings"
