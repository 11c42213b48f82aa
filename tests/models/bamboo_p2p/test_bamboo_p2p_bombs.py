"""Few compressed bytes that stand for very many are taken a turn at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.data_channel import receiver as receiver_module
from culm_models.bamboo_p2p.memory_store import MemoryStore
from culm_models.bamboo_p2p.settings import MESSAGES_A_TURN
from culm_models.bamboo_p2p.store import HeldEntry, VerifiedEntry
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import CompressedPayload, RawPayload, Switch
from culm_models.lzfoo import Compressor
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, make_log

SIZE = 300_000
PAYLOAD = bytes(SIZE)


def bombs(count: int) -> bytes:
    """So many entries, each with a payload of `SIZE` bytes in some tens."""
    compressed = Compressor(65_536).compress(PAYLOAD)
    assert compressed is not None
    said = encode_data(Switch(0))
    for given in make_log(count, payload=lambda _: PAYLOAD):
        entry = decode_entry(given.entry_bytes, YAMF)
        held = HeldEntry(entry, given.entry_bytes, YAMF.hash(given.entry_bytes))
        said += encode_metadata(held, with_backlink=False)
        said += encode_data(CompressedPayload(SIZE, len(compressed))) + compressed
    return said


def held(store: MemoryStore, count: int) -> list[bool]:
    return [store.has_payload(LOG, number) for number in range(1, count + 1)]


@pytest.mark.parametrize("a_turn", [SIZE, 2 * SIZE, 5 * SIZE - 1])
def test_so_much_comes_out_in_one_turn_and_the_rest_in_the_next(
    a_turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "PLAIN_BYTES_A_TURN", a_turn)
    made = HandMade().control(proposal())
    made.data_turn(bombs(12))
    turns = 1
    while made.end.data_is_left:
        taken = sum(held(made.store, 12))
        # What comes in a row is taken by the MiB, whatever is left of the turn.
        assert SIZE * taken <= turns * (a_turn + 1024**2)
        made.data_turn()
        turns += 1
    assert turns > 1 and all(held(made.store, 12)) and made.code is None


def test_control_messages_do_not_make_a_turn_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_module, "PLAIN_BYTES_A_TURN", SIZE)
    made = HandMade().control(proposal()).data_turn(bombs(12))
    before = held(made.store, 12)
    assert made.end.data_is_left and not all(before)
    made.control(proposal(2, 2**40))
    assert held(made.store, 12) == before


def test_of_entries_in_a_row_no_more_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HandMade().control(proposal())
    sizes: list[int] = []
    put = made.store.put_verified

    def watched(log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        sizes.append(sum(len(payload or b"") for _, payload in verified))
        put(log, verified)

    monkeypatch.setattr(made.store, "put_verified", watched)
    made.data_bytes(bombs(40))
    assert all(held(made.store, 40)) and SIZE <= max(sizes) <= 1024**2


def test_tiny_parts_of_a_payload_are_read_a_bounded_number_a_turn() -> None:
    (given,) = make_log(1, payload=lambda _: bytes(10_000))
    entry = decode_entry(given.entry_bytes, YAMF)
    entry_held = HeldEntry(entry, given.entry_bytes, YAMF.hash(given.entry_bytes))
    head = encode_data(Switch(0)) + encode_metadata(entry_held, with_backlink=False)
    made = HandMade().control(proposal())
    made.data_turn(head + (encode_data(RawPayload(1)) + b"\0") * 10_000)
    turns = 1
    while made.end.data_is_left:
        assert made.end._receiver.messages_read <= turns * MESSAGES_A_TURN
        made.data_turn()
        turns += 1
    assert turns > 10 and held(made.store, 1) == [True] and made.code is None
