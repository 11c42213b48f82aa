"""LZFoo against LZ4's C library: compression ratios, and MB per second in both directions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import lz4.block as lz4_block

from bench.harness import BenchSettings, Ratio, interleaved_rates
from culm_models.lzfoo import Compressor, Decompressor

_WINDOW = 65_535
_LARGE, _SMALL = 65_536, 300
_ROOT = Path(__file__).parents[1]
_LZ4 = "LZ4, default level"
_RATIO_GOAL = 0.9
_DECOMPRESSION_GOAL = 1.0
_DECOMPRESSION_MB = 50


def run(settings: BenchSettings) -> list[Ratio]:
    """Compress payloads of one direction one after another; each may copy from 64 KiB before the payload."""
    size, repeats = (200_000, 1) if settings.quick else (1_000_000, 5)
    kinds = {"text": _texts("docs", "md"), "source code": _texts("models", "py"), "records": _records(size)}
    kinds = {name: content[:size] for name, content in kinds.items()}
    ratios: list[Ratio] = []
    for name, content in kinds.items():
        ratios += _measured(f"{name}, payloads of 64 KiB", _cut(content, _LARGE), repeats)
    ratios += _measured(
        "all three, payloads of 64 KiB",
        _cut(b"".join(kinds.values()), _LARGE),
        repeats,
        speed_goal=_DECOMPRESSION_GOAL,
    )
    small = _cut(kinds["records"][:100_000], _SMALL)
    return ratios + _measured("records, payloads of 300 bytes", small, repeats)


def _measured(
    name: str, payloads: Sequence[bytes], repeats: int, *, speed_goal: float | None = None
) -> list[Ratio]:
    plain_size = sum(map(len, payloads))
    histories = _histories(payloads)
    ours, theirs = _compressed(payloads), _lz4_compressed(payloads, histories)
    # Incompressible payloads are sent raw, on either side.
    our_size = sum(
        len(payload) if compressed is None else len(compressed)
        for compressed, payload in zip(ours, payloads, strict=True)
    )
    lz4_size = sum(
        min(len(compressed), len(payload)) for compressed, payload in zip(theirs, payloads, strict=True)
    )
    messages = [
        (compressed, len(payload))
        for compressed, payload in zip(ours, payloads, strict=True)
        if compressed is not None
    ]
    came_out = sum(size for _, size in messages)

    def compress() -> int:
        _compressed(payloads)
        return plain_size

    def decompress() -> int:
        decompressor = Decompressor(_WINDOW)
        for compressed, size in messages:
            for _ in decompressor.feed(compressed, size):
                pass
            decompressor.end()
        return came_out

    def lz4_compress() -> int:
        _lz4_compressed(payloads, histories)
        return plain_size

    our_rate, lz4_rate, our_way_back = (
        rate / 1e6 for rate in interleaved_rates([compress, lz4_compress, decompress], repeats=repeats)
    )
    return [
        Ratio(
            "lzfoo",
            f"{name}: times smaller",
            plain_size / our_size,
            plain_size / lz4_size,
            "x",
            _LZ4,
            goal=_RATIO_GOAL,
            details={"bytes": plain_size, "compressed": our_size, "lz4": lz4_size},
        ),
        Ratio("lzfoo", f"{name}: compression", our_rate, lz4_rate, "MB/s", _LZ4, goal=None),
        Ratio(
            "lzfoo",
            f"{name}: decompression",
            our_way_back,
            _DECOMPRESSION_MB,
            "MB/s",
            f"{_DECOMPRESSION_MB} MB/s",
            goal=speed_goal,
        ),
    ]


def _compressed(payloads: Sequence[bytes]) -> list[bytes | None]:
    compressor = Compressor(_WINDOW)
    return [compressor.compress(payload) for payload in payloads]


def _lz4_compressed(payloads: Sequence[bytes], histories: Sequence[bytes]) -> list[bytes]:
    return [
        lz4_block.compress(payload, store_size=False, dict=history)
        for payload, history in zip(payloads, histories, strict=True)
    ]


def _histories(payloads: Sequence[bytes]) -> list[bytes]:
    histories, history = [], b""
    for payload in payloads:
        histories.append(history)
        history = (history + payload)[-_WINDOW:]
    return histories


def _cut(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def _texts(folder: str, suffix: str) -> bytes:
    """Return the content of this repository's own files."""
    return b"".join(path.read_bytes() for path in sorted((_ROOT / folder).rglob(f"*.{suffix}")))


def _records(size: int) -> bytes:
    """Return JSON objects as applications log them: repeated names, random ids, words by their frequency."""
    made = random.Random(15)
    words = _texts("docs", "md").decode().split()
    lines: list[bytes] = []
    written = 0
    while written < size:
        record = {
            "id": made.randbytes(16).hex(),
            "kind": made.choice(("post", "like", "follow", "profile")),
            "at": 1_700_000_000_000 + len(lines) * 1_000 + made.randrange(1_000),
            "text": " ".join(made.choice(words) for _ in range(made.randrange(25))),
        }
        lines.append(json.dumps(record).encode() + b"\n")
        written += len(lines[-1])
    return b"".join(lines)
