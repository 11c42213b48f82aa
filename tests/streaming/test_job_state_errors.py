"""Settings of jobs that cannot be, and state that is not whole, are errors with a code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from culm_models.lifts import LIFTS
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.errors import JobSettingsError, StateMissingError
from culm_streaming.logs.book import LOG, SKIPLINK, TAIL, decode_block, encode_block, load_chunk
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.sds.record import Journal, segments
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.stateful.job_state import MemoryState

SALTED = tuple(lift.name for lift in LIFTS if lift.salt_bytes)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChainSettings(shards=0),
        lambda: ChainSettings(shards=1025),
        lambda: ChainSettings(blocks=65_536),
        lambda: ChainSettings(max_early_per_log=0),
        lambda: ChainSettings(max_early_bytes_per_log=2**32),
        lambda: HeightsSettings(block_bits=17),
        lambda: HeightsSettings(shards=0),
        lambda: HeightsSettings(chunk_rows=0),
        lambda: HeightsSettings(recent_rows=0),
        lambda: HeightsSettings(lifts=SALTED),
        lambda: ChannelsSettings(shards=0),
        lambda: ChannelsSettings(wake_ms=0),
        lambda: ChannelsSettings(wake_ms=30_001),
        lambda: ChannelsSettings(tokens=0),
        lambda: ChannelsSettings(ids_per_key=0),
        lambda: replace(ChannelsSettings(), filter_bytes=-1),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(JobSettingsError) as refused:
        make()
    assert refused.value.code == "streaming.settings"


def test_a_chunk_of_history_that_is_gone_is_told() -> None:
    with pytest.raises(StateMissingError, match="chunk 3"):
        load_chunk(MemoryState(), bytes(40), 3)


def test_a_chunk_of_a_journal_that_is_gone_is_told() -> None:
    with pytest.raises(StateMissingError, match="chunk 0"):
        list(segments(MemoryState(), b"c", Journal(ends=[5], mark=5), 0))


def test_a_block_of_another_size_is_told() -> None:
    blob = encode_block(np.zeros(1, LOG), np.zeros(0, SKIPLINK), np.zeros(0, TAIL))
    assert len(decode_block(blob)[0]) == 1
    with pytest.raises(StateMissingError):
        decode_block(blob + b"\x00")
