"""Decode, verify and hash entries, against PyNaCl's bare verify on the same bytes."""

from __future__ import annotations

import random

from nacl.bindings import crypto_sign_open

from bench.harness import BenchSettings, Ratio, interleaved_rates
from culm_infra.demo.p2panda.plan import entries_of, made_history
from culm_models.keys import PUBLIC_KEY_SIZE, SIGNATURE_SIZE
from culm_models.p2panda.operations.operation import check_many


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one thread, with the same entries on both sides."""
    count = 2_000 if settings.quick else 20_000
    pairs = list(entries_of([writer.log() for writer in made_history(random.Random(3), count)]))
    # crypto_sign_open expects the signature in front of the message.
    signed = [
        (entry[-SIGNATURE_SIZE:] + entry[:-SIGNATURE_SIZE], entry[1 : 1 + PUBLIC_KEY_SIZE])
        for entry, _ in pairs
    ]

    def bare() -> int:
        for message, public_key in signed:
            crypto_sign_open(message, public_key)
        return len(signed)

    def ours() -> int:
        refused = [item for item in check_many(pairs) if isinstance(item, Exception)]
        assert not refused, refused[0]
        return len(pairs)

    bare_rate, our_rate = interleaved_rates([bare, ours], repeats=3 if settings.quick else 5)
    name, limit_name = "decode + verify + hash, one thread", "bare PyNaCl verify"
    return [Ratio("a", name, our_rate, bare_rate, "entries/s", limit_name, goal=0.85)]
