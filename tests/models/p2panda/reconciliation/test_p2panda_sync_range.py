"""The sync range in memory: ranks, spans and fingerprints against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.lifts import ADD128, LIFTS, SIPHASH128, Item, Lift
from culm_models.p2panda.store import MemoryLogStore, SyncRange
from tests.support.logs import OTHER_SCHEMA, SCHEMA, author, make_log

KEYS = st.sampled_from([bytes((number,)) * 32 for number in (0, 1, 7, 255)])
HEIGHTS = st.dictionaries(st.tuples(KEYS, st.integers(0, 5)), st.integers(1, 9), max_size=12)


@given(HEIGHTS, st.data(), st.sampled_from(LIFTS))
def test_spans_go_round_the_ring(
    heights: dict[tuple[bytes, int], int], data: st.DataObject, lift: Lift
) -> None:
    items: list[Item] = sorted((*key, seq_num) for key, seq_num in heights.items())
    salt = bytes(lift.salt_bytes)
    held = SyncRange(reversed(items), lift, salt)
    assert len(held) == len(items)
    start = data.draw(st.integers(0, len(items)))
    size = data.draw(st.integers(0, len(items)))
    expected = (items + items)[start : start + size]
    assert held.items(start, size) == expected
    assert held.fingerprints([(start, size)]) == [lift.fingerprint(expected, salt)]
    bound = (data.draw(KEYS), data.draw(st.integers(0, 5)), data.draw(st.integers(0, 9)))
    assert held.ranks([bound]) == [sum(item < bound for item in items)]
    assert held.bounds(range(len(items))) == [(key, log_id, 0) for key, log_id, _ in items]


@pytest.mark.parametrize("salt", [b"", bytes(16)])
def test_the_stores_range_is_of_its_moment(salt: bytes) -> None:
    lift = SIPHASH128 if salt else ADD128
    store = MemoryLogStore()
    log = make_log(author("anna"), 3, 4)
    store.append(log[:2])
    store.append(make_log(author("anna"), 4, 1, schema_id=OTHER_SCHEMA))
    held = store.sync_range([SCHEMA], lift, salt)
    store.append(log)
    assert held.items(0, 1) == [(*log[0].log, 2)]
    later = store.sync_range([SCHEMA, OTHER_SCHEMA], lift, salt)
    assert later.items(0, len(later)) == store.log_heights([SCHEMA, OTHER_SCHEMA])
    assert store.sync_range([OTHER_SCHEMA, SCHEMA], lift, salt) is later
