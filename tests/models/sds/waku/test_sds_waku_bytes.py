"""Messages and filters against the running @waku/sds: what one writes the other reads, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

import pytest

from culm_models.conform.sds.messages import message_from_json, message_to_json
from culm_models.sds.bloom import LAYOUTS, ReceivedFilter, RollingFilter
from culm_models.sds.errors import SdsMessageError
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.messages import HistoryEntry, Message
from tests.support.sds.waku import WakuSds, running

NOW = 1_763_760_000_000


@pytest.fixture(scope="module")
def waku() -> Iterator[WakuSds]:
    """The running driver."""
    with running() as driver:
        yield driver


def drawn(draw: random.Random) -> Message:
    """A message of any kind, with any fields."""

    def octets(limit: int) -> bytes:
        return draw.randbytes(draw.randrange(limit))

    def text() -> str:
        return "".join(draw.choices("abc0189-_é→🌾 ", k=draw.choice([0, 1, 5, 64, 130])))

    def entries(limit: int) -> tuple[HistoryEntry, ...]:
        return tuple(
            HistoryEntry(text(), draw.choice([None, octets(40)]), draw.choice([None, text()]))
            for _ in range(draw.randrange(limit))
        )

    lamport = draw.choice([None, draw.getrandbits(31), NOW + draw.getrandbits(30), draw.getrandbits(64)])
    content = draw.choice([None, octets(300)]) if lamport is not None else b"." + octets(300)
    bloom = draw.choice([None, octets(300)])
    return Message(text(), text(), text(), lamport, entries(5), bloom, content, entries(3))


def test_messages_both_ways(waku: WakuSds) -> None:
    draw = random.Random(8)
    for _ in range(300):
        message = drawn(draw)
        wire = encode(message, "js").hex()
        shown = message_to_json(message)
        if message.lamport_timestamp is not None:
            shown["lamport_timestamp"] = str(message.lamport_timestamp)
        assert waku.ask("encode", message=shown) == {"bytes": wire}
        theirs = message_from_json(waku.ask("decode", bytes=wire)["message"])
        assert theirs == replace(message, content=message.content or None)


def test_what_we_read_of_changed_bytes_it_reads_too(waku: WakuSds) -> None:
    draw = random.Random(9)
    read = 0
    for _ in range(600):
        wire = bytearray(encode(drawn(draw), "js"))
        for _ in range(draw.randrange(1, 4)):
            wire[draw.randrange(len(wire))] = draw.randrange(256)
        try:
            decoded = decode(bytes(wire), "js")
        except SdsMessageError:
            continue
        read += 1
        theirs = waku.ask("decode", bytes=wire.hex())["message"]
        assert message_from_json(theirs) == replace(decoded, content=decoded.content or None)
    assert read > 50


def test_filters_are_the_same_bytes_and_each_finds_its_ids_in_the_others(waku: WakuSds) -> None:
    waku.ask("open", name="filters", channel_id="c", participant_id="waku", now=NOW)
    ours = RollingFilter("js", 10_000, 0.001)
    contents = [f"content {number}".encode() for number in range(200)]
    for content in contents:
        waku.ask("send", name="filters", content=content.hex(), now=NOW)
        ours.add(sha256(content).hexdigest())
    theirs = bytes.fromhex(waku.ask("state", name="filters")["bloom"])
    assert ours.value() == theirs
    bloom = ReceivedFilter.parse("js", theirs, 10_000, 0.001)
    assert bloom is not None and bloom.is_evidence
    assert all(bloom.contains(LAYOUTS["js"].hash_pair(sha256(content).hexdigest())) for content in contents)
    # Its own way to ask: a filter of ours that holds what it sent makes each of its messages possibly known.
    sync = Message("culm", "sync-1", "c", NOW, bloom_filter=ours.value())
    events = waku.ask("receive", name="filters", bytes=encode(sync, "js").hex(), now=NOW)["events"]
    hits = [event for event in events if event["kind"] == "sds:out:message-possibly-acknowledged"]
    assert [hit["detail"]["messageId"] for hit in hits] == [
        sha256(content).hexdigest() for content in contents
    ]
