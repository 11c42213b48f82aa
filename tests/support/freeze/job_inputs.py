"""What the streaming jobs are given: records at first, and later ones that only their state can judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.sds.channel import Channel
from culm_models.sds.wire.messages import Profile
from culm_topics.logs.records import ReceiptRecord
from culm_topics.records import log_key
from culm_topics.sds.keys import shard_of
from culm_topics.sds.records import SdsCommand, SdsCommandRecord, SdsInRecord
from tests.support.freeze.topics import Input
from tests.support.logs import OTHER_SCHEMA, author, make_log
from tests.support.sds_shards import START_MS, content, key_of, peer, token
from tests.support.shards import entry_value

PARTITIONS = 2
CHANNELS: dict[str, Profile] = {"room": "spec", "js room": "js", "nim room": "nim"}
QUIET = "quiet room"
"""A channel where nobody answers."""

ANN, BOB, EVE = (author(name) for name in ("ann", "bob", "eve"))
_SHORT, _LONG = make_log(ANN, 0, 14), make_log(EVE, 1, 261)
_GAPPY = make_log(BOB, 2**64 - 2, 9, schema_id=OTHER_SCHEMA)
PEERS = (b"p" * 32, b"q" * 32)


@dataclass(slots=True)
class Conversations:
    """Bob in every channel, opposite to Alice, whom the job hosts."""

    bobs: dict[str, Channel] = field(
        default_factory=lambda: {one: peer("bob", one, profile=profile) for one, profile in CHANNELS.items()}
    )
    heard: list[Input] = field(default_factory=list)
    lost: dict[str, bytes] = field(default_factory=dict)

    def begin(self, outs: Mapping[str, Sequence[bytes]]) -> list[Input]:
        """Bob has heard the first of what Alice said; one message of his is lost, and one follows on it."""
        for channel_id, bob in self.bobs.items():
            bob.receive(outs[channel_id][0], START_MS)
            self.heard.append(_heard(channel_id, content(bob, b"two", START_MS)))
            self.lost[channel_id] = content(bob, b"comes later", START_MS + 1)
            self.heard.append(_heard(channel_id, content(bob, b"waits", START_MS + 2)))
        return self.heard

    def go_on(self, outs: Mapping[str, Sequence[bytes]]) -> list[Input]:
        """Repeats, what was lost, and that Bob has heard the second of what Alice said."""
        inputs = list(self.heard)
        for channel_id, bob in self.bobs.items():
            inputs.append(_heard(channel_id, self.lost[channel_id]))
            bob.receive(outs[channel_id][1], START_MS + 3)
            inputs.append(_heard(channel_id, content(bob, b"four", START_MS + 4)))
        return inputs


def first_inputs() -> list[Input]:
    """Logs, one with a gap and one of some length; what peers hold; hosted participants that speak."""
    inputs = [_entry(one) for one in (*_SHORT[:12], *_GAPPY[:5], *_GAPPY[6:8], *_LONG[:260])]
    inputs.append(_receipt(PEERS[0], (ANN, 0, 7), (BOB, 2**64 - 2, 3)))
    inputs.append(_receipt(PEERS[1], (EVE, 1, 250)))
    for number, channel_id in enumerate((*CHANNELS, QUIET)):
        inputs.append(_command(channel_id, "join", 10 * number))
        inputs.append(_command(channel_id, "send", 10 * number + 1, b"one"))
        inputs.append(_command(channel_id, "send", 10 * number + 2, b"another"))
    return inputs


def later_inputs() -> list[Input]:
    """Repeats, forks far back, what was waited for, what grows, and commands that come again."""
    forks = [
        *make_log(ANN, 0, 1, text="other", after=_SHORT[:4]),
        *make_log(EVE, 1, 1, text="other", after=_LONG[:99]),
    ]
    inputs = [_entry(one) for one in (*_SHORT[10:], *forks, _GAPPY[5], _GAPPY[8], *_LONG[250:])]
    inputs.append(_receipt(PEERS[0], (ANN, 0, 3), (BOB, 2**64 - 2, 9)))
    inputs.append(_receipt(PEERS[1], (EVE, 1, 261), (ANN, 0, 14)))
    for number, channel_id in enumerate(CHANNELS):
        inputs.append(_command(channel_id, "send", 10 * number + 1, b"one"))
        inputs.append(_command(channel_id, "send", 10 * number + 3, b"three"))
    return inputs


def _entry(checked: CheckedOperation) -> Input:
    key = log_key(*checked.log)
    return "entries", key[0] % PARTITIONS, key, entry_value(checked)


def _receipt(peer_id: bytes, *heights: tuple[KeyPair, int, int]) -> Input:
    rows = tuple((key_pair.public_key, log_id, seq_num) for key_pair, log_id, seq_num in heights)
    return "receipts", 0, peer_id, ReceiptRecord(rows).encode()


def _command(channel_id: str, kind: SdsCommand, number: int, text: bytes | None = None) -> Input:
    profile = CHANNELS.get(channel_id, "spec")
    record = SdsCommandRecord(kind, profile, "alice", token(number), text, peer_id=key_of(1))
    return "sds.commands", shard_of(channel_id, PARTITIONS), channel_id.encode(), record.encode()


def _heard(channel_id: str, wire: bytes) -> Input:
    record = SdsInRecord(CHANNELS[channel_id], wire, key_of(2))
    return "sds.in", shard_of(channel_id, PARTITIONS), channel_id.encode(), record.encode()
