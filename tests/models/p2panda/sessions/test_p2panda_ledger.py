"""What a session of mode 1 keeps in its ledger: who lacks what."""

from __future__ import annotations

from collections.abc import Iterable

from culm_models.lifts import ADD128, Item
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.remote_heights import Ledger
from culm_models.p2panda.store import SyncRange

KEY = b"\x05" * 32
ITEMS: list[Item] = [(KEY, log_id, 4) for log_id in range(10)]
HELD = SyncRange(ITEMS, ADD128)


def lacking(parts: Iterable[EntryRange]) -> list[tuple[int, int, int]]:
    return [(part.log_id, part.first_seq_num, part.last_seq_num) for part in parts]


def test_a_complete_range_tells_of_every_log_in_it() -> None:
    ledger = Ledger(HELD, 0)
    ledger.show([(KEY, 1, 4), (KEY, 2, 1), (KEY, 3, 9), (KEY, 77, 5)])
    assert lacking(ledger.complete([(1, 4)])) == [(2, 2, 4), (4, 1, 4)]
    ledger.close_ranges()
    assert ledger.differing == 4
    assert sorted(ledger.take_heights()) == [(KEY, 1, 4), (KEY, 2, 1), (KEY, 3, 9)]


def test_silence_in_an_answer_is_judged_at_the_end() -> None:
    for silence_is_equal, sent in ((True, []), (False, [(1, 1, 4)])):
        ledger = Ledger(HELD, 0)
        ledger.equal([(3, 8)])
        ledger.show([(KEY, 2, 0)])
        assert lacking(ledger.answered([(1, 2)])) == [(2, 1, 4)]
        assert ledger.close(silence_is_equal=silence_is_equal) == len(sent)
        assert lacking(ledger.never_mentioned()) == sent


def test_a_range_may_go_round_the_end() -> None:
    ledger = Ledger(HELD, 0)
    ledger.equal([(8, 4)])
    assert ledger.close(silence_is_equal=True) == ledger.differing == 6
    assert lacking(ledger.never_mentioned()) == [(log_id, 1, 4) for log_id in range(2, 8)]
    assert ledger.equal_heights(4) == [ITEMS[0], ITEMS[1], ITEMS[8], ITEMS[9]]
    assert ledger.equal_heights(3) == []


def test_no_log_is_sent_twice() -> None:
    ledger = Ledger(HELD, 0)
    assert len(ledger.complete([(0, 10)])) == 10
    ledger.show([(KEY, 3, 2)])
    assert ledger.complete([(0, 10)]) == ledger.answered([(2, 3)]) == []
    assert ledger.close(silence_is_equal=False) == 0
