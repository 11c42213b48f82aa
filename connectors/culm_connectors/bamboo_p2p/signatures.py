"""Verifies batches of signatures on all cores. libsodium releases the interpreter lock meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from culm_models.keys import verify_all

_SHARE_MIN: Final = 4
"""Fewer signatures are verified faster than a thread is woken for them."""


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "signatures")


def verify_in_threads(public_key: bytes, signed: Sequence[bytes]) -> list[bool]:
    """Verify like `keys.verify_all`, on at most one thread per core, including the caller's."""
    shares = min(os.cpu_count() or 1, len(signed) // _SHARE_MIN)
    if shares < 2:
        return verify_all(public_key, signed)
    pool = _threads((os.cpu_count() or 1) - 1)
    size = -(-len(signed) // shares)
    cuts = [signed[begin : begin + size] for begin in range(0, len(signed), size)]
    others = [pool.submit(verify_all, public_key, cut) for cut in cuts[1:]]
    verdicts = verify_all(public_key, cuts[0])
    for pending_result in others:
        verdicts += pending_result.result()
    return verdicts
