"""Two ends of Bamboo Point-2-Point in one process: entries per second, bytes per piece, memory, growth."""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Sequence

from bench.bamboo_material import AUTHOR, LOG, TwoEnds, made_log
from bench.harness import BenchSettings, Ratio, interleaved_rates
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import SIGNATURE_SIZE, verify_all

_CASE = "bamboo"
_VERIFY_GOAL = 0.8
_OPEN_REQUESTS = 10_000
_MEMORY_MB = 100
_EXPONENT_GOAL = 1.05
_SMALL_BYTES = 100

Log = Sequence[tuple[HeldEntry, bytes]]


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure with stores in memory, so that only the protocol, hashes and signatures count."""
    count, repeats = (2_000, 1) if settings.quick else (10_000, 3)
    log = made_log(count, _SMALL_BYTES)
    # The collector need not traverse the objects of the start, nor the log itself.
    gc.collect()
    gc.freeze()
    try:
        return [
            _against_verify(log, repeats),
            _bytes_a_piece(log[: count // 2]),
            _growth(log, repeats),
            _open_requests(_OPEN_REQUESTS // 10 if settings.quick else _OPEN_REQUESTS),
        ]
    finally:
        gc.unfreeze()


def _transfer(log: Log) -> TwoEnds:
    two = TwoEnds()
    two.peers[0].store.put_verified(LOG, log)
    two.talk()
    two.ends[1].propose(RequestedRange(*LOG, 1, end=len(log)))
    two.talk()
    assert two.peers[1].store.has_payload(LOG, len(log))
    return two


def _against_verify(log: Log, repeats: int) -> Ratio:
    signed = [
        stored.entry.signature + stored.entry_bytes[:-SIGNATURE_SIZE] for stored, _ in log
    ]  # as libsodium wants it

    def bare() -> int:
        assert all(verify_all(AUTHOR.public_key, signed))
        return len(signed)

    def ours() -> int:
        _transfer(log)
        return len(log)

    bare_rate, our_rate = interleaved_rates([bare, ours], repeats=repeats)
    name = f"entries with payloads of {_SMALL_BYTES} bytes, both ends"
    return Ratio(_CASE, name, our_rate, bare_rate, "entries/s", "bare verify, one thread", goal=_VERIFY_GOAL)


def _bytes_a_piece(log: Log) -> Ratio:
    two = _transfer(log)
    own = sum(len(stored.entry_bytes) + len(payload) for stored, payload in log)
    pieces = 2 * len(log)
    return Ratio(
        _CASE,
        "bytes a piece on the data channel",
        two.data_bytes / pieces,
        own / pieces,
        "bytes",
        "entry and payload themselves",
        goal=1.0,
        higher_is_better=False,
    )


def _growth(log: Log, repeats: int) -> Ratio:
    """Measure the exponent of a transfer's processor time in the length of the log."""
    lengths = [len(log) // 16, len(log) // 4, len(log)]
    times = []
    for length in lengths:
        taken = []
        for _ in range(max(repeats, 3)):
            started = time.process_time()
            _transfer(log[:length])
            taken.append(time.process_time() - started)
        times.append(min(taken))
    exponent = math.log(times[-1] / times[0]) / math.log(lengths[-1] / lengths[0])
    return Ratio(
        _CASE,
        "exponent of processor time in log length",
        exponent,
        1.0,
        "",
        "linear",
        goal=_EXPONENT_GOAL,
        higher_is_better=False,
        details={"entries": lengths, "cpu_s": times},
    )


def _open_requests(count: int) -> Ratio:
    """Open live requests for as many logs, all confirmed, and measure the memory of both ends."""
    two = TwoEnds(BambooSettings(credit=count))
    two.talk()
    tracemalloc.start()
    for log_id in range(count):
        two.ends[1].propose(RequestedRange(AUTHOR.public_key, log_id, 1))
        if log_id % 100 == 0:
            two.talk()
    two.talk()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    confirmed = sum(request.confirmed for end in two.ends for request in end.requests)
    assert confirmed == 2 * count, confirmed
    return Ratio(
        _CASE,
        f"memory of {count:,} open requests, both ends",
        used / 1e6,
        _MEMORY_MB,
        "MB",
        f"{_MEMORY_MB} MB",
        goal=1.0,
        higher_is_better=False,
    )
