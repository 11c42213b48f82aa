"""SDS-R between a channel of ours and the running @waku/sds: who asks when, and who answers when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from culm_models.sds.wire.codec import decode
from tests.models.sds.waku.waku_for_tests import NOW, Culm, Waku, waku_id
from tests.support.sds.waku import WakuSds, running

T_MIN, T_MAX = 30_000, 120_000


@pytest.fixture(scope="module")
def driver() -> Iterator[WakuSds]:
    """The running driver."""
    with running() as waku_sds:
        yield waku_sds


def test_they_answer_our_request(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    lost, child = waku.send(b"lost", NOW), waku.send(b"child", NOW + 1)
    culm.receive(child, NOW + 2)
    now = NOW + 2
    wires: list[bytes] = []
    while not culm.seen("repair_requested"):
        now, wires = culm.until_sent(now, "sync")
    assert now - (NOW + 2) >= T_MIN
    (asked,) = decode(wires[-1], "js").repair_request
    assert (asked.message_id, asked.sender_id) == (waku_id(b"lost"), "waku")
    waku.receive(wires[-1], now)
    assert waku.seen("repair:request-received") == [
        {"messageIds": [waku_id(b"lost")], "fromSenderId": "culm"}
    ]
    (queued,) = waku.seen("RepairResponseQueued")
    assert queued["tResp"] == now, "the writer answers at once"
    answers = waku.answer(now + 1)
    assert answers == [lost]
    culm.receive(answers[0], now + 1)
    assert culm.delivered == [waku_id(b"lost"), waku_id(b"child")]
    assert culm.log == waku.log(now + 2)


def test_we_answer_their_request(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    lost, child = culm.send(b"lost", NOW), culm.send(b"child", NOW + 1)
    waku.receive(child, NOW + 2)
    (queued,) = waku.seen("RepairRequestQueued")
    assert queued["messageId"] == decode(lost, "js").message_id
    assert T_MIN <= queued["tReq"] - (NOW + 2) < T_MAX
    now = queued["tReq"]
    (sync,) = waku.sync(now)
    assert [entry.message_id for entry in decode(sync, "js").repair_request] == [queued["messageId"]]
    culm.receive(sync, now)
    now, wires = culm.until_sent(now, "repair")
    assert now < queued["tReq"] + T_MAX
    assert wires == [lost]
    assert [event.message_id for event in culm.seen("repair_answered")] == [queued["messageId"]]
    waku.receive(lost, now)
    assert waku.deliver(now) == []
    assert culm.log == waku.log(now)


def test_we_ask_when_they_would(driver: WakuSds) -> None:
    writer = Waku(driver, "writer")
    lost, child = writer.send(b"lost", NOW), writer.send(b"child", NOW + 1)
    # The same participant id, so that the hashes are the same.
    culm, waku = Culm("same"), Waku(driver, "same")
    culm.receive(child, NOW + 2)
    waku.receive(child, NOW + 2)
    (queued,) = waku.seen("RepairRequestQueued")
    now = NOW + 2
    while not culm.seen("repair_requested"):
        now, _ = culm.until_sent(now, "sync")
    assert now == queued["tReq"]
    assert decode(lost, "js").message_id == queued["messageId"]


def test_we_answer_for_another_when_they_would(driver: WakuSds) -> None:
    writer, reader = Waku(driver, "writer"), Waku(driver, "reader")
    lost, child = writer.send(b"lost", NOW), writer.send(b"child", NOW + 1)
    culm, waku = Culm("same"), Waku(driver, "same")
    for wire in (lost, child):
        culm.receive(wire, NOW + 2)
        waku.receive(wire, NOW + 2)
    reader.receive(child, NOW + 2)
    (asked,) = reader.seen("RepairRequestQueued")
    (sync,) = reader.sync(asked["tReq"])
    waku.receive(sync, asked["tReq"])
    culm.receive(sync, asked["tReq"])
    (queued,) = waku.seen("RepairResponseQueued")
    now, wires = culm.until_sent(asked["tReq"], "repair")
    assert now == queued["tResp"]
    assert wires == [lost] == waku.answer(now + 1)
    reader.receive(wires[0], now)
    reader.deliver(now)
    assert reader.log(now) == culm.log


def test_an_answer_by_them_makes_ours_needless(driver: WakuSds) -> None:
    writer, reader = Waku(driver, "writer"), Waku(driver, "reader")
    lost, child = writer.send(b"lost", NOW), writer.send(b"child", NOW + 1)
    culm = Culm("culm")
    for wire in (lost, child):
        culm.receive(wire, NOW + 2)
    reader.receive(child, NOW + 2)
    (asked,) = reader.seen("RepairRequestQueued")
    (sync,) = reader.sync(asked["tReq"])
    culm.receive(sync, asked["tReq"])
    writer.receive(sync, asked["tReq"])
    (answer,) = writer.answer(asked["tReq"] + 1)
    culm.receive(answer, asked["tReq"] + 1)
    culm.tick(asked["tReq"] + T_MAX)
    assert culm.seen("repair_answered") == []
