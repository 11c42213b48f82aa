"""A driver that takes the journal seldom: the filter rolls over in between, and a restart misses nothing."""

from __future__ import annotations

from culm_models.sds.channel import Channel
from culm_models.sds.settings import SdsSettings

SETTINGS = SdsSettings(bloom_capacity=100, max_wire_bytes=0)
NOW_MS = 1_700_000_000_000
MESSAGES = 3_000


def hosting(participant_id: str) -> Channel:
    channel = Channel("c", "spec", SETTINGS, now_ms=NOW_MS, seed=b"seed")
    channel.join(participant_id, NOW_MS)
    return channel


def test_many_rollovers_between_two_looks_at_the_journal_leave_no_hole_in_the_filter() -> None:
    sender, channel = hosting("bob"), hosting("alice")
    chunks: list[bytes] = []
    for _ in range(3):
        mark = channel.journal_mark
        for number in range(MESSAGES):
            (outbound,) = sender.send("bob", number.to_bytes(2, "big"), NOW_MS).send
            channel.receive(outbound.wire, NOW_MS)
        sender.leave("bob", NOW_MS)
        sender.join("bob", NOW_MS)
        chunks.append(channel.journal_since(mark))
        channel.journal_kept(channel.journal_mark)

    restored, anew = hosting("zoe"), hosting("zoe")
    for chunk in chunks:
        restored.apply_journal(chunk)
    anew.apply_journal(channel.journal_whole())
    for one in (restored, anew):
        one.restore_head(channel.head())
        assert one.journal_whole() == channel.journal_whole()
    sent = [one.send("alice", b"hi", NOW_MS, nonce=b"n").send for one in (channel, restored, anew)]
    assert sent[0] == sent[1] == sent[2]
