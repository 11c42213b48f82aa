"""Two sources of one log: when the sending source falls silent, the other is asked for the rest."""

from __future__ import annotations

import signal
from dataclasses import replace
from itertools import pairwise
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.url import Url, parse_url
from culm_infra.demo.bamboo.json_process import CULM, JsonProcess
from culm_infra.demo.bamboo.stage import BambooActor, BambooStage, author_log, noise
from culm_infra.demo.kit.report import SceneFigures
from culm_infra.stack.ports import HOST
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified

_LOG_ID: Final = 80
_ENTRIES: Final = 2_000
_PAYLOAD_BYTES: Final = 1_000
_STOP_AT: Final = 200
_SILENCE_S: Final = 1.0


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Follow the log; the process that is the chosen source is stopped with SIGSTOP midway."""
    log = author_log(_LOG_ID)
    payloads = [noise(_PAYLOAD_BYTES, number) for number in range(_ENTRIES)]
    for name in ("first-source", "second-source"):
        stage.write_log(name, _LOG_ID, payloads)
    folder = stage.directory / "first-source"
    serve = (*CULM, "bamboo", "serve", f"tcp://{HOST}:0", "--dir", str(folder), "--json")
    settings = replace(BambooPeerSettings(), progress_timeout_s=_SILENCE_S)
    async with (
        stage.process("the first source", serve) as process,
        stage.actor("second-source") as second,
        stage.actor("failover-reader", settings) as reader,
        second.peer.listen(Url("tcp", HOST, 0)) as second_url,
    ):
        is_listening = "the first source to listen"
        _, bound = await stage.line(process, lambda line: line["event"] == "listening", is_listening)
        stopped = _StopsProcess(process)
        reader.peer.listeners.append(stopped.receive_event)
        await reader.peer.follow(FollowedLog(log))
        async with reader.peer.connect(parse_url(bound["url"])) as first_remote:
            await stage.until(lambda: stopped.is_done, "entries of the first source")
            async with reader.peer.connect(second_url) as second_remote:
                await stage.until(
                    lambda: reader.holds_payloads(log, 1, _ENTRIES), "the rest from the second source"
                )
                process.send_signal(signal.SIGCONT)
                before = reader.by_remote[first_remote.name, "entry"]
                figures.at_least("entries from the first source, then silence", before, _STOP_AT)
                figures.at_most("which is not the log", before, _ENTRIES - 1)
                rest = reader.by_remote[second_remote.name, "entry"]
                figures.equal("entries from the second source: the rest", rest, _ENTRIES - before)
                figures.at_least("silence in between", _longest_gap_s(reader, log), _SILENCE_S, "s")
                figures.equal("payloads verified, each once", reader.counts["payload"], _ENTRIES)


def _longest_gap_s(reader: BambooActor, log: LogKey) -> float:
    at_s = sorted(at_s for (kind, of, _), at_s in reader.at_s.items() if (kind, of) == ("entry", log))
    return max((later - earlier for earlier, later in pairwise(at_s)), default=0.0)


class _StopsProcess:
    """Sends SIGSTOP to a process as soon as a number of its entries have arrived."""

    def __init__(self, process: JsonProcess) -> None:
        self._process = process
        self.is_done = False

    def receive_event(self, _: RemotePeer, event: BambooP2pEvent) -> None:
        """Stop the process after the entry `_STOP_AT`."""
        if isinstance(event, EntryVerified) and event.seq_num == _STOP_AT:
            self._process.send_signal(signal.SIGSTOP)
            self.is_done = True
