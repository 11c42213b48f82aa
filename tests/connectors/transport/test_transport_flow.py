"""Credit, bounds and receipts: neither side can be made to hold more than the settings say."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    ConnectionClosedError,
    ReceiveStream,
    SendStream,
    StreamResetError,
    StreamStoppedError,
)
from culm_connectors.transport.quic.connection import QuicTransportConnection
from culm_connectors.transport.quic.probe import measure_stream
from tests.support.connectors.quic import linked, one_way, quick_settings
from tests.support.process.waiting import ended, until, while_working

MIB = 1_024 * 1_024


def held_bytes(connection: Connection) -> int:
    """What a connection holds for its driver: read in order, and waiting behind gaps."""
    assert isinstance(connection, QuicTransportConnection)
    behind_gaps = sum(len(stream.receiver._buffer) for stream in connection.quic._streams.values())
    return connection.statistics().unread_bytes + behind_gaps


async def at_rest(connection: Connection) -> None:
    """Wait until nothing has come for a while: that a sender is stopped can only be seen by its silence."""
    while True:
        before = connection.statistics().received_bytes
        await asyncio.sleep(0.2)
        if connection.statistics().received_bytes == before:
            return


@pytest.mark.parametrize("datagram_bytes", [1_200, 8_900])
async def test_a_paused_reader_holds_less_than_its_window_and_loses_nothing(datagram_bytes: int) -> None:
    settings = quick_settings(datagram_bytes=datagram_bytes)
    total = 32 * MIB if datagram_bytes > 1_200 else 8 * MIB
    payload = random.Random(7).randbytes(total)
    async with linked(settings) as (client, server):
        out, stream = await one_way(client, server)

        async def send() -> None:
            await out.write(payload)
            out.finish()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            await at_rest(server)
            assert 0 < held_bytes(server) <= settings.stream_receive_window_bytes < MIB
            assert client.statistics().unsent_bytes <= settings.send_bound_bytes
            digest, taken, max_held = hashlib.sha256(), 0, 0
            while data := await stream.read():
                digest.update(data)
                taken += len(data)
                max_held = max(max_held, held_bytes(server))
        assert taken == total
        assert digest.digest() == hashlib.sha256(payload).digest()
        assert max_held <= settings.stream_receive_window_bytes


async def test_all_streams_together_hold_no_more_than_the_connection_window() -> None:
    settings = quick_settings(receive_window_bytes=512 * 1_024)
    async with linked(settings) as (client, server):
        streams = [await one_way(client, server) for _ in range(5)]
        part = bytes(512 * 1_024)

        async def send(out: SendStream) -> None:
            await out.write(part)
            out.finish()

        async def read(stream: ReceiveStream) -> int:
            taken = 0
            while data := await stream.read():
                taken += len(data)
            return taken

        async with asyncio.TaskGroup() as tasks:
            for out, _ in streams:
                tasks.create_task(send(out))
            await at_rest(server)
            assert 0 < held_bytes(server) <= settings.receive_window_bytes
            readers = [tasks.create_task(read(stream)) for _, stream in streams]
        assert [reader.result() for reader in readers] == [len(part)] * 5


async def test_a_slow_reader_is_never_handed_more_than_it_asked_for() -> None:
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)
        payload = random.Random(3).randbytes(MIB)

        async def send() -> None:
            await out.write(payload)
            out.finish()

        got = bytearray()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            while data := await stream.read(1_000):
                assert len(data) <= 1_000
                got += data
                if len(got) % 50 == 0:
                    await asyncio.sleep(0)
        assert got == payload


async def test_streams_that_are_reset_give_their_credit_back() -> None:
    settings = quick_settings(receive_window_bytes=128 * 1_024, stream_receive_window_bytes=64 * 1_024)
    async with linked(settings) as (client, server):
        for _ in range(40):  # forty times half a window: leaked credit would stop the connection
            out, stream = await one_way(client, server)
            await out.write(bytes(60 * 1_024))
            await until(lambda: server.statistics().unread_bytes > 0)
            out.reset(7)
            with pytest.raises(StreamResetError) as caught:
                while await stream.read():
                    pass
            assert caught.value.stream_code == 7


async def test_streams_that_are_stopped_unread_give_their_credit_back() -> None:
    settings = quick_settings(receive_window_bytes=128 * 1_024, stream_receive_window_bytes=64 * 1_024)
    async with linked(settings) as (client, server):
        for _ in range(40):
            out, stream = await one_way(client, server)

            async def send(out: SendStream = out) -> None:
                with pytest.raises(StreamStoppedError):
                    while True:
                        await out.write(bytes(16 * 1_024))

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(send())
                await until(lambda: server.statistics().unread_bytes > 0)
                stream.stop(9)
            assert await stream.read() == b""


async def test_streams_that_ended_unread_and_are_stopped_give_their_credit_back() -> None:
    settings = quick_settings(receive_window_bytes=128 * 1_024, stream_receive_window_bytes=64 * 1_024)
    async with linked(settings) as (client, server):
        for _ in range(40):
            out, stream = await one_way(client, server)
            await out.write(bytes(60 * 1_024))
            out.finish()
            await out.wait_acknowledged(out.written)
            await until(lambda: server.statistics().unread_bytes == 60 * 1_024)
            stream.stop(9)
            assert server.statistics().unread_bytes == 0
            assert await stream.read() == b""


async def test_streams_that_nobody_reads_are_bounded_in_number() -> None:
    settings = quick_settings(max_streams=4)
    async with linked(settings) as (client, server):
        for _ in range(20):
            out = await client.open_stream()
            await out.write(b"x")
            out.finish()
        await at_rest(server)
        assert isinstance(server, QuicTransportConnection)
        assert len(server._receive_streams) == settings.max_streams
        for _ in range(20):  # the rest comes as streams are read to their end
            stream = await server.accept_stream()
            assert await stream.read() == b"x"
            assert await stream.read() == b""
        assert server.close_reason is None


async def test_a_remote_that_opens_more_streams_than_granted_is_closed() -> None:
    settings = quick_settings(max_streams=2)
    async with linked(settings) as (client, _):
        assert isinstance(client, QuicTransportConnection)
        client.quic._remote_max_streams_uni = 1_000  # it believes in a grant that it never got
        for _ in range(10):
            out = await client.open_stream()
            await out.write(b"x")
        reason = await ended(client.wait_closed())
        assert reason.origin == "remote"


async def test_a_writer_waits_at_the_bound_and_goes_on_below_the_resume_mark() -> None:
    settings = quick_settings()
    async with linked(settings) as (client, server):
        out, stream = await one_way(client, server)
        writer = asyncio.create_task(out.write(bytes(4 * MIB)))
        await at_rest(server)
        assert not writer.done()
        assert out.written - out.acknowledged <= settings.send_bound_bytes
        assert out.written <= settings.send_bound_bytes + settings.stream_receive_window_bytes + 1
        taken = 0
        while taken < 4 * MIB:
            taken += len(await stream.read())
        await writer
        assert out.written == 4 * MIB + 1


async def test_a_receipt_comes_when_the_remote_stack_has_the_bytes_read_or_not() -> None:
    async with linked(quick_settings()) as (client, server):
        out, _ = await one_way(client, server)
        await out.write(b"a" * 1_000)
        middle = out.written
        await out.write(b"b" * 1_000)
        async with while_working():
            await out.wait_acknowledged(middle)
            assert out.acknowledged >= middle
            await out.wait_acknowledged(out.written)
        assert out.acknowledged == out.written == 2_001


async def test_no_receipt_comes_for_what_credit_holds_back() -> None:
    settings = quick_settings()
    async with linked(settings) as (client, server):
        out, _ = await one_way(client, server)
        await out.write(bytes(512 * 1_024))
        await at_rest(server)
        assert 0 <= out.acknowledged - settings.stream_receive_window_bytes <= 1
        receipt = asyncio.create_task(out.wait_acknowledged(out.written))
        await asyncio.sleep(0)
        client.abort(CloseCode.NORMAL)
        with pytest.raises(ConnectionClosedError):
            await receipt


async def test_many_writes_of_one_turn_leave_in_few_datagrams() -> None:
    async with linked(quick_settings(datagram_bytes=1_200)) as (client, server):
        out, stream = await one_way(client, server)
        assert isinstance(client, QuicTransportConnection)
        sent: list[int] = []
        send = client._pump._send_datagram

        def watch(data: bytes, address: Address) -> None:
            sent.append(len(data))
            send(data, address)

        client._pump._send_datagram = watch
        for number in range(1_000):
            await out.write(number.to_bytes(2, "big"))
        assert not sent
        got = bytearray()
        while len(got) < 2_000:
            got += await stream.read()
        assert bytes(got) == b"".join(number.to_bytes(2, "big") for number in range(1_000))
        assert sum(size > 500 for size in sent) <= 3


async def test_a_stream_of_two_directions_goes_both_ways() -> None:
    async with linked(quick_settings()) as (client, server):
        out = await client.open_stream(bidirectional=True)
        await out.write(b"question")
        out.finish()
        stream = await server.accept_stream()
        assert await stream.read() == b"question"
        assert await stream.read() == b""
        assert stream.send is not None
        await stream.send.write(b"answer")
        stream.send.finish()
        assert out.receive is not None
        assert await out.receive.read() == b"answer"
        assert await out.receive.read() == b""


async def test_a_finished_stream_takes_no_more() -> None:
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)
        out.finish()
        out.finish()
        assert await stream.read() == b""
        with pytest.raises(StreamStoppedError):
            await out.write(b"more")


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview], ids=["bytes", "bytearray", "memoryview"])
async def test_any_buffer_can_be_written(make: Callable[[bytes], Any]) -> None:
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)
        await out.write(make(b"some bytes"))
        assert await stream.read() == b"some bytes"


async def test_the_probe_moves_what_it_is_told_to_move() -> None:
    result = await measure_stream(3 * MIB + 17)
    assert result.total_bytes == 3 * MIB + 17
    assert result.bytes_per_second > 0
