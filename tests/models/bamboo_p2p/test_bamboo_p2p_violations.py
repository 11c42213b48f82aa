"""Every invariant of reference 3.9, broken by a hand-made end and answered by its code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from culm_models.bamboo import decode_entry
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import (
    COMPRESSED_BYTES_MAX,
    PAUSE_MS,
    UNCHANGING_MESSAGES_MAX,
    BambooSettings,
    Policy,
)
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    CompressedPayload,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    RawPayload,
    Setup,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, make_log

ENTRIES = make_log(9)
ALL = Eagerness.ALL


def metadata(seq_num: int, *, backlink: bool = False, signature: bytes | None = None) -> Metadata:
    """The metadata of an entry of the log."""
    entry = decode_entry(ENTRIES[seq_num - 1].entry_bytes, YAMF)
    return Metadata(
        entry.end_of_log,
        entry.backlink if backlink else None,
        entry.payload_size,
        entry.payload_hash,
        signature or entry.signature,
    )


def payload(seq_num: int) -> bytes:
    """The payload of an entry of the log."""
    return ENTRIES[seq_num - 1].payload or b""


def serving() -> HandMade:
    """An end that holds the log."""
    return HandMade(ENTRIES)


def asking(policy: Policy | None = None, **wants: object) -> HandMade:
    """An end that holds nothing and confirmed the proposal 0 of the hand-made one for the whole log."""
    made = HandMade(settings=BambooSettings(policy=policy or Policy()))
    made.control(proposal(**wants))  # type: ignore[arg-type]
    made.data(Switch(0))
    return made


def proposing(**wants: object) -> HandMade:
    """An end that holds nothing and proposed request 0 itself."""
    made = HandMade(is_proactive=True)
    made.control(Grant(4))
    return made.propose(RequestedRange(*LOG, 1, **wants))  # type: ignore[arg-type]


FORKED = sign_entry(AUTHOR, LOG[1], 1, b"another", flavour=YAMF)
OTHER_LOG = sign_entry(AUTHOR, LOG[1] + 1, 1, b"x", flavour=YAMF)
PROOF = Cancel(0, CancelCode.FORKED, entries=(ENTRIES[0].entry_bytes, FORKED))

VIOLATIONS: dict[str, tuple[str, Callable[[], HandMade]]] = {
    # 0x01
    "an unused byte of control": ("malformed", lambda: serving().control_bytes(b"\x88")),
    "an unused byte of data": ("malformed", lambda: serving().data_bytes(b"\x01")),
    "evidence that is no entry": ("malformed", lambda: serving().control_bytes(b"\x85\x00\x02")),
    "a hash of the other flavour": (
        "malformed",
        lambda: serving().control_bytes(
            encode_control(proposal(lower=2, start=2, expected_hash=YASMF.hash(b"")))
        ),
    ),
    "a payload size in more bytes than it needs": (
        "malformed",
        lambda: asking().data_bytes(b"\x80\xf8\x01"),
    ),
    # 0x02
    "too much credit": ("credit", lambda: serving().control(Grant(2**64 - 1), Grant(1))),
    "a proposal without credit": (
        "credit",
        lambda: HandMade(settings=BambooSettings(credit=1)).control(proposal(0), proposal(2)),
    ),
    # 0x03
    "an id of the wrong parity": ("id", lambda: serving().control(proposal(1))),
    "an id in use": ("id", lambda: serving().control(proposal(0), proposal(0))),
    # 0x04
    "an adjustment of nothing": ("inactive", lambda: serving().control(Adjust(0, ALL))),
    "a cancel of nothing": ("inactive", lambda: serving().control(Cancel(0, CancelCode.DONE))),
    "an adjustment behind a cancel": (
        "inactive",
        lambda: serving().control(proposal(), Cancel(0, CancelCode.DONE), Adjust(0, ALL)),
    ),
    "two cancels": (
        "inactive",
        lambda: serving().control(proposal(), *[Cancel(0, CancelCode.DONE)] * 2),
    ),
    "a confirmation without eagerness": (
        "inactive",
        lambda: proposing().control(Adjust(0, may_skip=True)),
    ),
    # 0x05
    "a start of 0": ("range", lambda: serving().control(proposal(start=0))),
    "an end of 0": ("range", lambda: serving().control(proposal(end=0, upper=1))),
    "an end before the start": ("range", lambda: serving().control(proposal(start=2, end=1))),
    "an upper bound below the end": ("range", lambda: serving().control(proposal(end=4, upper=3))),
    "a lower bound above the start": (
        "range",
        lambda: serving().control(proposal(start=2, lower=3, expected_hash=YAMF.hash(b""))),
    ),
    "a lower bound outside of the pool": (
        "range",
        lambda: serving().control(proposal(start=8, lower=5, expected_hash=YAMF.hash(b""))),
    ),
    "an end lowered before the start": (
        "range",
        lambda: serving().control(proposal(start=4, end=9), Adjust(0, end=3)),
    ),
    "an upper bound lowered below the end": (
        "range",
        lambda: serving().control(proposal(end=5, upper=13), Adjust(0, upper=4)),
    ),
    "an upper bound without any end": (
        "range",
        lambda: serving().control(proposal(), Adjust(0, upper=40)),
    ),
    # 0x06
    "a minimum lowered": (
        "interest",
        lambda: serving().control(proposal(min_size=5), Adjust(0, min_size=4)),
    ),
    "a maximum raised": (
        "interest",
        lambda: serving().control(proposal(max_size=5), Adjust(0, max_size=6)),
    ),
    # 0x07
    "data without a current request": ("current", lambda: serving().data(Notify(1))),
    "a switch to an unconfirmed request": (
        "current",
        lambda: HandMade(settings=BambooSettings(credit=4)).data(Switch(2)),
    ),
    "a switch to an own id that was never given": ("current", lambda: serving().data(Switch(1))),
    "the end of an own id that was never given": ("current", lambda: serving().data(Cancelled(1))),
    "data behind its end": (
        "current",
        lambda: asking().data(Cancelled(0), Notify(1)),
    ),
    "two ends of one request": ("current", lambda: asking().data(Cancelled(0), Cancelled(0))),
    "data of a refused proposal": (
        "current",
        lambda: proposing().control(Cancel(0, CancelCode.REFUSED)).data(Switch(0)),
    ),
    # 0x08
    "a payload where metadata must come": ("piece", lambda: asking().data(RawPayload(1))),
    "a skip where metadata must come": (
        "piece",
        lambda: asking().data(Skip(SkipReason.TOO_SMALL)),
    ),
    "metadata where a payload must come": (
        "piece",
        lambda: asking().data(metadata(1), metadata(2)),
    ),
    "more than the payload": (
        "piece",
        lambda: asking().data(metadata(1), RawPayload(len(payload(1)) + 1)),
    ),
    "metadata past the end": (
        "piece",
        lambda: asking(end=1).data(metadata(1), RawPayload(len(payload(1))), payload(1), metadata(2)),
    ),
    "notifies past the end": (
        "piece",
        lambda: asking(Policy(eagerness=Eagerness.NOTIFY), end=1).data(Notify(3)),
    ),
    # 0x09
    "a notify where data was asked for": ("unwanted", lambda: asking().data(Notify(1))),
    "metadata where notifies were asked for": (
        "unwanted",
        lambda: asking(Policy(eagerness=Eagerness.NOTIFY)).data(metadata(1)),
    ),
    "a payload above the threshold": (
        "unwanted",
        lambda: asking(Policy(eagerness=Eagerness.THRESHOLD, threshold=0)).data(metadata(1), RawPayload(1)),
    ),
    "a payload outside of the sizes": (
        "unwanted",
        lambda: asking(Policy(max_size=1)).data(metadata(1), RawPayload(len(payload(1)))),
    ),
    "too small, and it is not": (
        "unwanted",
        lambda: asking().data(metadata(1), Skip(SkipReason.TOO_SMALL)),
    ),
    "too large, and it is not": (
        "unwanted",
        lambda: asking().data(metadata(1), Skip(SkipReason.TOO_LARGE)),
    ),
    "a mandatory payload skipped": (
        "unwanted",
        lambda: asking(Policy(may_skip=False)).data(metadata(1), Skip(SkipReason.UNAVAILABLE)),
    ),
    "bytes skipped that were never sent": (
        "unwanted",
        lambda: asking().data(metadata(1), SkipBytes(1)),
    ),
    # 0x0a
    "compressed data without a window": (
        "compression",
        lambda: _without_window().data(metadata(1), CompressedPayload(2, 2)),
    ),
    "more compressed bytes than raw ones would be": (
        "compression",
        lambda: asking().data(metadata(1), CompressedPayload(2, 21)),
    ),
    "a copy from before the beginning": (
        "compression",
        lambda: asking().data(metadata(1), CompressedPayload(2, 2), b"\x82\x01"),
    ),
    "compressed bytes that stop short": (
        "compression",
        lambda: asking().data(metadata(1), CompressedPayload(2, 2), b"\x01a"),
    ),
    # 0x0b
    "an apology for nothing": ("apology", lambda: asking().data(Apology())),
    "an apology for valid metadata": ("apology", lambda: asking().data(metadata(1), Apology())),
    "an apology for a payload that was skipped": (
        "apology",
        lambda: asking().data(metadata(1), Skip(SkipReason.UNAVAILABLE), Apology()),
    ),
    "two apologies for one piece": (
        "apology",
        lambda: asking().data(metadata(1), RawPayload(1), b"1", Apology(), RawPayload(1), b"1", Apology()),
    ),
    # 0x0c
    "a wrong signature": (
        "invalid_data",
        lambda: asking().data(metadata(1, signature=bytes(64))),
    ),
    "a wrong payload": (
        "invalid_data",
        lambda: asking().data(metadata(1), RawPayload(len(payload(1))), bytes(len(payload(1)))),
    ),
    "more behind invalid data, in greedy mode": (
        "invalid_data",
        lambda: greedily_asking().data(metadata(1, signature=bytes(64)), RawPayload(1)),
    ),
    "an entry behind the end of the log": ("invalid_data", lambda: _behind_the_end()),
    # 0x0d
    "an end of log behind the start": (
        "evidence",
        lambda: proposing().control(Cancel(0, CancelCode.END_OF_LOG, 1)),
    ),
    "a hash mismatch where none was expected": (
        "evidence",
        lambda: proposing().control(Cancel(0, CancelCode.HASH_MISMATCH, entries=(ENTRIES[0].entry_bytes,))),
    ),
    "a fork of another log": (
        "evidence",
        lambda: proposing().control(
            Cancel(0, CancelCode.FORKED, entries=(ENTRIES[0].entry_bytes, OTHER_LOG))
        ),
    ),
    "two entries that prove no fork": (
        "evidence",
        lambda: proposing().control(
            Cancel(0, CancelCode.FORKED, entries=(ENTRIES[0].entry_bytes, ENTRIES[1].entry_bytes))
        ),
    ),
    # 0x0e
    "grants of nothing without end": (
        "limit",
        lambda: serving().control(*[Grant(0)] * (UNCHANGING_MESSAGES_MAX + 1)),
    ),
    "switches to the current request without end": (
        "limit",
        lambda: asking().data(*[Switch(0)] * (UNCHANGING_MESSAGES_MAX + 1)),
    ),
    "a compressed message for more than is done in one go": ("limit", lambda: _for_a_large_payload()),
    "data that waits for ever": ("limit", lambda: _waiting()),
}


def _without_window() -> HandMade:
    made = HandMade(settings=BambooSettings(receive_window=0))
    made.control(proposal())
    return made.data(Switch(0))


def _behind_the_end() -> HandMade:
    ended = sign_entry(AUTHOR, LOG[1], 1, b"", end_of_log=True, flavour=YAMF)
    last = decode_entry(ended, YAMF)
    return asking().data(
        Metadata(True, None, 0, last.payload_hash, last.signature),
        RawPayload(0),
        Metadata(False, None, 0, last.payload_hash, bytes(64)),
    )


def greedily_asking() -> HandMade:
    made = HandMade(settings=BambooSettings(accepts_greedy=True), setup=Setup(True, False, 65_536, 65_536))
    made.control(proposal())
    return made.data(Switch(0))


def _for_a_large_payload() -> HandMade:
    entry = sign_entry(AUTHOR, LOG[1], 1, bytes(COMPRESSED_BYTES_MAX + 1), flavour=YAMF)
    large = decode_entry(entry, YAMF)
    return asking().data(
        Metadata(False, None, large.payload_size, large.payload_hash, large.signature),
        CompressedPayload(large.payload_size, 100),
    )


def _waiting() -> HandMade:
    made = serving().data(Cancelled(0))
    made.end.tick(PAUSE_MS)
    return made


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_ends_the_connection_with_its_code(name: str) -> None:
    code, broken = VIOLATIONS[name]
    assert broken().code == f"bamboo_p2p.{code}"


ADMITTED: dict[str, Callable[[], HandMade]] = {
    "a grant of nothing": lambda: serving().control(Grant(0)),
    "equal sizes": lambda: serving().control(
        proposal(min_size=5, max_size=9), Adjust(0, min_size=5, max_size=9)
    ),
    "a larger end": lambda: serving().control(proposal(end=4), Adjust(0, end=9)),
    "131 out of the blue": lambda: serving().control(proposal(), Cancel(0, CancelCode.CONFIRMED)),
    "a switch to the current request": lambda: asking().data(Switch(0)),
    "nothing notified of": lambda: asking().data(Notify(0)),
    "no bytes of a payload": lambda: asking().data(metadata(1), RawPayload(0), SkipBytes(0)),
    "a prefix apologised for": lambda: asking().data(
        metadata(1), RawPayload(1), b"?", Apology(), RawPayload(len(payload(1))), payload(1)
    ),
    "invalid data apologised for, in greedy mode": lambda: greedily_asking().data(
        metadata(1, signature=bytes(64)), Apology(), metadata(1)
    ),
    "a notify under the old eagerness": lambda: (
        asking(Policy(eagerness=Eagerness.NOTIFY)).control().data(Notify(4))
    ),
    "a true proof of a fork": lambda: proposing().control(PROOF),
    "two ends in a row": lambda: (
        HandMade(settings=BambooSettings()).control(proposal(0, end=1), proposal(2, end=1))
    ).data(Cancelled(0), Cancelled(2)),
}


@pytest.mark.parametrize("name", ADMITTED)
def test_what_only_looks_like_a_violation_is_admitted(name: str) -> None:
    made = ADMITTED[name]()
    assert made.code is None, made.end.dropped


def test_nothing_verified_is_lost_by_a_violation() -> None:
    made = asking().data(metadata(1), RawPayload(len(payload(1))), payload(1), Notify(1))
    assert made.code == "bamboo_p2p.unwanted"
    assert made.store.has_payload(LOG, 1)
