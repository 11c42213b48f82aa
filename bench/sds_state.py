"""The state of a huge channel of the job `sds`: `python -m bench.sds_state MESSAGES PARTICIPANTS`."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from culm_models.sds.channel import Channel
from culm_models.sds.settings import SdsSettings
from culm_streaming.sds.record import Cache
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind
from culm_streaming.sds.step import Row, Source, step
from culm_streaming.stateful.job_state import MemoryState, Variable
from culm_topics.sds.records import SdsCommandRecord, SdsInRecord

_CHANNEL = "huge"
_BATCH = 1_000
_START_MS = 1_700_000_000_000
_PAGE_BYTES = resource.getpagesize()


def main() -> None:
    messages, participants = map(int, sys.argv[1:])
    settings, state, cache = ChannelsSettings(shards=1), MemoryState(), Cache(10**9)
    remote = Channel(_CHANNEL, "spec", SdsSettings(), now_ms=_START_MS, seed=b"bob")
    remote.join("bob", _START_MS)
    names = [f"participant {number}" for number in range(participants)]
    before_bytes = _resident_bytes()
    now_ms, offset, seconds = _START_MS, 0, 0.0
    rows = [_command(number, "join", name) for number, name in enumerate(names)]
    step(state, rows, now_ms, settings, cache)
    for start in range(0, messages, _BATCH):
        now_ms += 1_000
        rows = []
        for number in range(_BATCH):
            (outbound,) = remote.send("bob", (start + number).to_bytes(200, "big"), now_ms).send
            rows.append(_heard(now_ms, offset, outbound.wire))
            offset += 1
        remote.leave("bob", now_ms)
        remote.join("bob", now_ms)
        begun = time.perf_counter()
        step(state, rows, now_ms, settings, cache)
        seconds += time.perf_counter() - begun
    quiet = _sizes(state)
    # Each hosted participant has a message that is not acknowledged yet.
    now_ms += 1_000
    rows = [
        _command(participants + number, "send", name, now_ms, b"%d" % number)
        for number, name in enumerate(names)
    ]
    step(state, rows, now_ms, settings, cache)
    busy = _sizes(state)
    state.loads = state.saves = state.saved_bytes = 0
    begun = time.perf_counter()
    (outbound,) = remote.send("bob", b"one more", now_ms).send
    step(state, [_heard(now_ms, offset, outbound.wire)], now_ms + 1_000, settings, cache)
    touch = {"saves": state.saves, "saved_bytes": state.saved_bytes, "seconds": time.perf_counter() - begun}
    resident_bytes = _resident_bytes() - before_bytes
    begun = time.perf_counter()
    (outbound,) = remote.send("bob", b"and another", now_ms).send
    step(state, [_heard(now_ms, offset + 1, outbound.wire)], now_ms + 2_000, settings, Cache(0))
    restore_seconds = time.perf_counter() - begun
    total = sum(busy.values())
    json.dump(
        {
            "messages": messages,
            "participants": participants,
            "state_bytes": total,
            "state_bytes_by_kind": busy,
            "state_bytes_quiet": sum(quiet.values()),
            "state_bytes_per_participant": total / participants,
            "state_bytes_per_message": total / messages,
            "bloom_bytes": 18_752,
            "messages_per_s": messages / seconds,
            "one_message_writes": touch,
            "restore_seconds": restore_seconds,
            "worker_resident_bytes": resident_bytes,
        },
        sys.stdout,
    )


def _command(number: int, kind: str, name: str, now_ms: int = _START_MS, text: bytes | None = None) -> Row:
    record = SdsCommandRecord(kind, "spec", name, number.to_bytes(16, "big"), text)  # type: ignore[arg-type]
    return Row(now_ms, Source.COMMANDS, 0, number, _CHANNEL.encode(), record.encode())


def _heard(now_ms: int, offset: int, wire: bytes) -> Row:
    return Row(now_ms, Source.IN, 0, offset, _CHANNEL.encode(), SdsInRecord("spec", wire, bytes(32)).encode())


def _sizes(state: MemoryState) -> dict[str, int]:
    names = {kind: name.lower() for name, kind in vars(StateKind).items() if isinstance(kind, Variable)}
    sizes: dict[str, int] = {}
    for (kind, name), blob in state.values.items():
        label = names[kind]
        sizes[label] = sizes.get(label, 0) + len(name) + len(blob)
    return sizes


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    main()
