"""The log: order, positions, windows for causal histories, and what leaves at the front."""

from __future__ import annotations

from bisect import bisect_left, insort
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.delivery.log import DeliveredMessage, MessageLog, OldIds
from culm_models.sds.wire.codec import encode_entry

KEYS = st.lists(
    st.tuples(st.integers(0, 5), st.text("abé\U0001f600", min_size=1, max_size=2)), unique_by=lambda k: k[1]
)


@given(keys=KEYS, window=st.integers(0, 4), max_entries=st.integers(1, 8))
def test_the_log_does_as_a_sorted_list(keys: list[tuple[int, str]], window: int, max_entries: int) -> None:
    log = MessageLog("spec", window=window, max_entries=max_entries)
    model, left = list[tuple[int, bytes]](), 0
    for lamport, message_id in keys:
        key = (lamport, message_id.encode())
        position = log.insert(DeliveredMessage(message_id, lamport, "s", None))
        assert position == left + bisect_left(model, key)
        insort(model, key)
        gone = log.trim()
        left += len(gone)
        assert [message_id.encode() for message_id in gone] == [each for _, each in model[: len(gone)]]
        del model[: len(gone)]
        assert [(message.lamport_timestamp, message.message_id.encode()) for message in log] == model
        tail = model[max(len(model) - window, 0) :] if window else []
        assert [message_id.encode() for message_id in log.tail_ids()] == [each for _, each in tail]
        named = [log.by_id[message_id].named() for message_id in log.tail_ids()]
        assert log.tail() == [encode_entry(entry, "spec") for entry in named]
    assert (len(log), log.left) == (len(model), left)


def test_a_long_log_keeps_its_order_and_positions() -> None:
    random = Random(3)
    log = MessageLog("js", window=3, max_entries=2_000)
    numbers = list(range(10_000))
    for start in range(0, 10_000, 20):
        part = numbers[start : start + 20]
        random.shuffle(part)
        for number in part:
            log.insert(DeliveredMessage(f"m{number}", number, "s", None))
            log.trim()
    assert [message.lamport_timestamp for message in log] == numbers[-2_000:]
    assert log.left == 8_000
    assert log.tail_ids() == ["m9997", "m9998", "m9999"]


def test_a_filled_log_is_one_that_grew() -> None:
    grown, filled = MessageLog("spec", window=2, max_entries=10), MessageLog("spec", window=2, max_entries=10)
    entries = [DeliveredMessage(f"m{number}", number, "s", b"h") for number in range(5)]
    for entry in entries:
        grown.insert(entry)
    filled.extend(entries, 0)
    assert (filled.keys(), filled.tail()) == (grown.keys(), grown.tail())
    assert (
        filled.insert(DeliveredMessage("x", 2, "s", None))
        == grown.insert(DeliveredMessage("x", 2, "s", None))
        == 3
    )
    assert filled.tail() == grown.tail()


def test_of_old_ids_the_newest_are_known_over_a_restart_too() -> None:
    old = OldIds(3)
    for number in range(5):
        old.add(f"m{number}")
    copy = OldIds(3)
    copy.extend_packed(old.pack())
    for old_ids in (old, copy):
        assert [f"m{number}" in old_ids for number in range(5)] == [False, False, True, True, True]
