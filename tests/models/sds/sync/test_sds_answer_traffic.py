"""How many syncs the answers to content take in a group that loses messages, simulated."""

import random

from culm_models.sds.settings import SdsSettings
from culm_models.testing.sds.network import SdsNetwork

MESSAGES = 50
PAUSE_MS = 10_000


def test_copies_that_are_sent_again_are_not_answered_as_soon_as_new_content() -> None:
    """Everybody hears each copy, so several would answer it: that had made seven syncs for each message."""
    settings = SdsSettings.for_participants("spec")
    channel = SdsNetwork(10, settings, seed=10, delay_ms=(20, 200), loss=0.4)
    rng = random.Random(10)
    for number in range(len(channel.nodes)):
        channel.send(number, b"a first word")
        channel.run_until(channel.now_ms + PAUSE_MS)
    channel.counts.clear()
    for _ in range(MESSAGES):
        channel.send(rng.randrange(len(channel.nodes)), b"words")
        channel.run_until(channel.now_ms + PAUSE_MS)
    assert channel.counts["sync"] <= 5 * MESSAGES
