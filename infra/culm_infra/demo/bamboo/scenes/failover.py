"""Two sources of one log: when the one that sends falls silent, the other is asked for the rest."""

from __future__ import annotations

import signal
import time
from typing import Any, Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import Url, parse_url
from culm_infra.demo.bamboo.figures import SceneFigures
from culm_infra.demo.bamboo.json_process import CULM
from culm_infra.demo.bamboo.logs import author_log, noise
from culm_infra.demo.bamboo.stage import HOST, BambooStage
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import Eagerness

_LOG_ID: Final = 80
_ENTRIES: Final = 2_000
_PAYLOAD_BYTES: Final = 1_000
_STOP_AT: Final = 200
_PROGRESS_S: Final = 1.0
"""A source that has sent nothing for so long, with something to send, is given up."""


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """The full source is `culm bamboo serve`, stopped with SIGSTOP; the other one has only notified."""
    log = author_log(_LOG_ID)
    payloads = [noise(_PAYLOAD_BYTES, number) for number in range(_ENTRIES)]
    for name in ("first-source", "second-source"):
        stage.write_log(name, _LOG_ID, payloads)
    folder = stage.settings.directory / "first-source"
    serve = (*CULM, "bamboo", "serve", f"tcp://{HOST}:0", "--dir", str(folder), "--json")
    async with (
        stage.process("the first source", serve) as process,
        stage.actor("second-source") as second,
        stage.actor("failover-reader") as reader,
        second.peer.listen(Url("tcp", HOST, 0)) as second_url,
    ):
        _, bound = await stage.line(
            process, lambda line: line["event"] == "listening", "the first source to listen"
        )
        stopped = _StopsProcess(process)
        reader.peer.listeners.append(stopped.receive_event)
        async with (
            reader.peer.connect(parse_url(bound["url"])) as first_remote,
            reader.peer.connect(second_url) as second_remote,
        ):
            notify = RequestedRange(*log, 1, eagerness=Eagerness.NOTIFY, direction=Direction.PULL)
            await second_remote.propose(notify)

            async def is_notified() -> bool:
                return reader.pieces >= 2 * _ENTRIES

            await stage.until(is_notified, "the second source's notifies")
            asked = await first_remote.propose(RequestedRange(*log, 1, direction=Direction.PULL))
            progress = _Progress(first_remote)

            async def is_silent() -> bool:
                return progress.silent_s() > _PROGRESS_S

            await stage.until(is_silent, "the first source to be silent for too long")
            held = await reader.peer.read(lambda store: store.highest_entry(log))
            figures.at_least("entries from the first source, then silence", held, _STOP_AT)
            figures.at_most("which is not the log", held, _ENTRIES - 1)
            figures.show("given up after", progress.silent_s(), "s")
            if asked is not None:
                await first_remote.cancel(asked)
            given_up_s, before = time.monotonic(), second_remote.session.received_bytes
            await reader.peer.ask(second_remote, FollowedLog(log))

            async def holds_all() -> bool:
                return await reader.holds_payloads(log, 1, _ENTRIES)

            await stage.until(holds_all, "the rest from the second source")
            process.send_signal(signal.SIGCONT)
            figures.show("the rest came from the second within", time.monotonic() - given_up_s, "s")
            figures.equal("payloads verified, each once", reader.counts["payload"], _ENTRIES)
            rest = (_ENTRIES - held + 1) * (_PAYLOAD_BYTES + 400)
            figures.at_most(
                "bytes of data from the second source", second_remote.session.received_bytes - before, rest
            )


class _StopsProcess:
    """SIGSTOP for a process as soon as so many of its entries have come."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def receive_event(self, _: RemotePeer, event: BambooP2pEvent) -> None:
        """Something happened at the reader."""
        if isinstance(event, EntryVerified) and event.seq_num == _STOP_AT:
            self._process.send_signal(signal.SIGSTOP)


class _Progress:
    """How long nothing has come from a peer."""

    def __init__(self, remote: RemotePeer) -> None:
        self._remote = remote
        self._bytes = -1
        self._since_s = time.monotonic()

    def silent_s(self) -> float:
        """Seconds since the last look at which there was something new."""
        if self._remote.session.received_bytes != self._bytes:
            self._bytes, self._since_s = self._remote.session.received_bytes, time.monotonic()
        return time.monotonic() - self._since_s
