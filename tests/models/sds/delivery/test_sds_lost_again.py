"""A round of fetches comes before a message is lost, and a lost id is sought again when it is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median

import pytest

from culm_models.sds.bloom import filter_of
from culm_models.sds.events import ChannelOutput, Lost
from culm_models.sds.settings import SdsSettings
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made

HOUR_MS = 3_600_000


def fetched(output: ChannelOutput) -> list[str]:
    return [entry.message_id for fetch in output.fetch for entry in fetch.entries]


def who_lost(message_id: str) -> Peer:
    """A peer that has given up a message which a delivered one names."""
    bob = Peer("bob")
    bob.receive(made("child", message_id))
    assert "lost" in kinds(bob.tick(NOW + HOUR_MS, "incoming"))
    assert bob.delivered == ["child"]
    return bob


def by_head(bob: Peer) -> ChannelOutput:
    return bob.did(bob.channel.compare_head([(NOW, "gone")], NOW + HOUR_MS))


def by_history(bob: Peer) -> ChannelOutput:
    return bob.receive(made("other", "gone", lamport=NOW + 1), NOW + HOUR_MS)


def by_history_of_a_sync(bob: Peer) -> ChannelOutput:
    return bob.receive(made("sync", "gone", content=None, sender="carol"), NOW + HOUR_MS)


def by_filter(bob: Peer) -> ChannelOutput:
    bloom = filter_of("spec", ["gone", "child"], bob.settings.bloom_capacity, bob.settings.bloom_error_rate)
    return bob.receive(made("sync", content=None, sender="carol", bloom=bloom), NOW + HOUR_MS)


@pytest.mark.parametrize("mention", [by_head, by_history, by_history_of_a_sync, by_filter])
def test_a_lost_id_that_is_mentioned_again_is_sought_again(mention: Callable[[Peer], ChannelOutput]) -> None:
    bob = who_lost("gone")
    assert fetched(mention(bob)) == ["gone"]
    assert [wanted.entry.message_id for wanted in bob.channel.status().missing] == ["gone"]
    copy = bob.restarted(whole=True)
    assert copy.channel.status() == bob.channel.status()
    bob.receive(made("gone", lamport=NOW - 1), NOW + HOUR_MS + 1)
    assert bob.log_ids[0] == "gone"
    assert bob.channel.status().lost == ()


def test_nobody_waits_for_a_lost_id_that_is_sought_again() -> None:
    bob = who_lost("gone")
    output = by_history(bob)
    assert kinds(output) == ["received", "delivered", "missing"]
    bob.tick(NOW + 3 * HOUR_MS, "incoming")
    assert [event.waiting for event in bob.events if isinstance(event, Lost)] == [("child",), ()]


def test_what_was_given_up_again_is_left_alone_ever_longer() -> None:
    bob, now_ms, pauses_ms = who_lost("gone"), NOW + HOUR_MS, []
    for _ in range(4):
        lost_ms = now_ms
        while not fetched(bob.channel.compare_head([(NOW, "gone")], now_ms)):
            now_ms += HOUR_MS // 4
            assert now_ms < lost_ms + 24 * HOUR_MS
        pauses_ms.append(now_ms - lost_ms)
        bob = bob.restarted(whole=True)
        now_ms += HOUR_MS
        assert "lost" in kinds(bob.tick(now_ms, "incoming"))
    assert pauses_ms == [0, HOUR_MS, 3 * HOUR_MS, 7 * HOUR_MS]


def test_the_filter_of_who_lacks_a_lost_id_says_nothing() -> None:
    bob = who_lost("gone")
    empty = filter_of("spec", ["child"], bob.settings.bloom_capacity, bob.settings.bloom_error_rate)
    output = bob.receive(made("sync", content=None, sender="carol", bloom=empty), NOW + HOUR_MS)
    assert fetched(output) == []


def test_after_a_reconnect_a_round_of_fetches_comes_before_anything_is_lost() -> None:
    bob = Peer("bob")
    bob.receive(made("child", "gone"))
    later_ms = NOW + 2 * HOUR_MS
    assert fetched(bob.did(bob.channel.fetch_again(later_ms))) == ["gone"]
    for past_ms in (0, 5_000, 9_999):
        assert "lost" not in kinds(bob.tick(later_ms + past_ms, "incoming"))
    bob.receive(made("gone", lamport=NOW - 1), later_ms + 9_999)
    assert bob.delivered == ["gone", "child"]


def test_what_nobody_has_is_lost_after_that_round() -> None:
    bob = Peer("bob")
    bob.receive(made("child", "gone"))
    later_ms = NOW + 2 * HOUR_MS
    bob.channel.fetch_again(later_ms)
    assert "lost" in kinds(bob.tick(later_ms + 10_000, "incoming"))


def test_news_gives_up_nothing_that_is_overdue() -> None:
    bob = Peer("bob")
    bob.receive(made("child", "gone"))
    output = bob.receive(made("other", "unknown", lamport=NOW + 1), NOW + 2 * HOUR_MS)
    assert fetched(output) == ["unknown"]
    assert "lost" not in kinds(output)


def test_only_what_is_long_overdue_is_fetched_again_by_who_was_not_there() -> None:
    bob = Peer("bob")
    bob.receive(made("child", "gone"))
    assert fetched(bob.channel.fetch_again(NOW + HOUR_MS + 59_999, overdue_ms=60_000)) == []
    assert fetched(bob.channel.fetch_again(NOW + HOUR_MS + 60_000, overdue_ms=60_000)) == ["gone"]


# How long a message waits for one that was lost on its way: in the time of the simulation.


_MESSAGES = 24
_STEP_MS = 100
_LONGEST_MS = 900_000


def waits_ms(answers: Callable[[int], bool], *, repairs: bool) -> list[int]:
    """For each of some messages that were lost, the time until it has come after all.

    `answers`: whether a fetch with this attempt is answered; `repairs`: whether requests by SDS-R are heard.
    """
    waits: list[int] = []
    for number in range(_MESSAGES):
        defaults = SdsSettings()
        times = {
            name: getattr(defaults, name) for name in ("fetch_retry_ms", "repair_t_min_ms", "repair_t_max_ms")
        }
        ann, ben = Peer(f"ann-{number}", **times), Peer(f"ben-{number}", **times)
        lost, now_ms = ann.send(b"lost"), NOW
        output = ben.receive(ann.send(b"next"), now_ms)
        while not ben.delivered:
            for fetch in output.fetch:
                if answers(fetch.attempt):
                    ben.receive(lost, now_ms, source="store")
            for outbound in output.send if repairs else ():
                ann.receive(outbound.wire, now_ms)
            for answer in ann.tick(now_ms, "repair").send:
                if answer.kind == "repair":
                    ben.receive(answer.wire, now_ms)
            now_ms += _STEP_MS
            assert now_ms - NOW < _LONGEST_MS, "it never came"
            output = ben.tick(now_ms)
        waits.append(now_ms - NOW)
    return waits


@pytest.mark.parametrize(
    ("answers", "repairs", "median_s", "longest_s"),
    [
        pytest.param(lambda attempt: attempt >= 2, False, 3, 3, id="the store has it a moment later"),
        pytest.param(lambda attempt: attempt >= 3, False, 8, 8, id="a peer has it, and one answer is lost"),
        pytest.param(lambda attempt: False, True, 25, 60, id="there is no store, peers repair"),
    ],
)
def test_a_lost_message_comes_within_seconds(
    answers: Callable[[int], bool], repairs: bool, median_s: int, longest_s: int
) -> None:
    waits = waits_ms(answers, repairs=repairs)
    assert median(waits) <= median_s * 1_000, sorted(waits)
    assert max(waits) <= longest_s * 1_000, sorted(waits)


def test_fetches_of_what_nobody_has_back_off() -> None:
    ann, ben = Peer("ann"), Peer("ben", repair_requests=False, sync_messages=False)
    ann.send(b"lost")
    output, now_ms = ben.receive(ann.send(b"next")), NOW
    times: list[int] = []
    while now_ms < NOW + 3_000_000:
        times += [now_ms] * len(output.fetch)
        now_ms += 1_000
        output = ben.tick(now_ms)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] <= 2_000
    assert len(times) <= 16 and max(pauses) > 300_000, pauses
