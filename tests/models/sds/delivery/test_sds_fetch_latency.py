"""How long a message waits for one that was lost on its way: in the time of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median

import pytest

from culm_models.sds.settings import SdsSettings
from tests.models.sds.channels_for_tests import NOW, Peer

_MESSAGES = 24
_STEP_MS = 100
_LONGEST_MS = 900_000


def waits_ms(answers: Callable[[int], bool], *, repairs: bool) -> list[int]:
    """For each of some messages that were lost, the time until it has come after all.

    `answers`: whether a fetch with this attempt is answered; `repairs`: whether requests by SDS-R are heard.
    """
    found: list[int] = []
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
        found.append(now_ms - NOW)
    return found


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
