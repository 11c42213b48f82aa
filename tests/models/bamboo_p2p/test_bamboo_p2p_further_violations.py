"""What reference 3.9 lists beyond the published vectors, broken by hand and answered by its code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import BambooP2pError
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import PAUSE_MS, UNCHANGING_MESSAGES_MAX, BambooSettings, Policy
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    CompressedPayload,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    RawPayload,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import (
    ENTRIES,
    VIOLATIONS,
    asking,
    metadata,
    payload,
    proposing,
    serving,
)

UNUSED_CONTROL = (136, 159)
UNUSED_DATA = (1, 10, 15, 17, 31, 33, 127, 130, 255)
ONE = ENTRIES[0].entry_bytes
LOG_ID_AT = 1 + len(LOG[0])


def _more_lost_than_credit() -> HandMade:
    """Proposals that lose to one of the real end's: one more than there was credit for (R41)."""
    made = HandMade(settings=BambooSettings(credit=1), is_proactive=True)
    made.control(Grant(4)).propose(RequestedRange(*LOG, 1))
    return made.control(proposal(1, 2), proposal(3, 2))


def _data_of_what_lost() -> HandMade:
    """The real end's proposal loses to one that begins earlier, and data for it comes all the same."""
    made = HandMade(is_proactive=True)
    made.control(Grant(4)).propose(RequestedRange(*LOG, 3, lower=1))
    return made.control(proposal(1)).data(Switch(0))


def _another_size() -> HandMade:
    """The author signed the hash of a payload of another size."""
    whole = sign_entry(AUTHOR, LOG[1], 1, b"", flavour=YAMF)
    signed = whole[: -64 - YAMF.size - 1] + b"\x03" + YAMF.hash(b"")
    claimed = Metadata(False, None, 3, YAMF.hash(b""), AUTHOR.sign(signed))
    return asking().data(claimed, RawPayload(3), b"abc")


def _compressed(compressed: bytes, length: int = 8, window: int = 65_536) -> HandMade:
    made = HandMade(settings=BambooSettings(receive_window=window)).control(proposal()).data(Switch(0))
    return made.data(metadata(1), CompressedPayload(length, len(compressed)), compressed)


def _unanswered() -> HandMade:
    made = proposing().data(Switch(0))
    made.end.tick(PAUSE_MS)
    return made


FURTHER: dict[str, tuple[str, Callable[[], HandMade]]] = {
    **{
        f"the unused byte {byte} of control": (
            "malformed",
            lambda byte=byte: serving().control_bytes(bytes((byte,))),  # type: ignore[misc]
        )
        for byte in UNUSED_CONTROL
    },
    **{
        f"the unused byte {byte} of data": (
            "malformed",
            lambda byte=byte: asking().data_bytes(bytes((byte,))),  # type: ignore[misc]
        )
        for byte in UNUSED_DATA
    },
    "a number of more bytes than it needs, in evidence": (
        "malformed",
        lambda: (
            serving()
            .control(proposal())
            .control_bytes(b"\x85\x00" + ONE[:LOG_ID_AT] + b"\xf8" + ONE[LOG_ID_AT:])
        ),
    ),
    "metadata with a hash of no form": ("malformed", lambda: asking().data_bytes(b"\x80\x00\x00\x20")),
    "more proposals lost to one than there was credit for": ("credit", _more_lost_than_credit),
    "a lower bound of 0": (
        "range",
        lambda: serving().control(proposal(start=2, lower=0, expected_hash=YAMF.hash(b""))),
    ),
    "data of a proposal that lost": ("current", _data_of_what_lost),
    "a payload without a current request": ("current", lambda: serving().data(RawPayload(1))),
    "notifies past the last number that there is": (
        "piece",
        lambda: asking(Policy(eagerness=Eagerness.NOTIFY)).data(*[Notify(2**64 - 1)] * 3),
    ),
    "a copy from nowhere": ("compression", lambda: _compressed(b"\x01a\x87\x00")),
    "a copy from beyond the window": ("compression", lambda: _compressed(b"\x061,1,1,\x82\x05", window=4)),
    "more than was announced": ("compression", lambda: _compressed(b"\x041,1,", length=3)),
    "a payload of another size than its hash": ("invalid_data", _another_size),
    "evidence that nobody signed": (
        "evidence",
        lambda: proposing().control(Cancel(0, CancelCode.FORKED, entries=(ONE, ONE[:-1] + b"\x00"))),
    ),
    "an end of log at 0": ("evidence", lambda: proposing().control(Cancel(0, CancelCode.END_OF_LOG, 0))),
    "adjustments that change nothing without end": (
        "limit",
        lambda: serving().control(proposal(), *[Adjust(0, max_size=2**64 - 1)] * UNCHANGING_MESSAGES_MAX),
    ),
    "notifies of nothing without end": (
        "limit",
        lambda: asking().data(*[Notify(0)] * UNCHANGING_MESSAGES_MAX),
    ),
    "a switch that waits for its answer for ever": ("limit", _unanswered),
}


@pytest.mark.parametrize("name", FURTHER)
def test_a_further_violation_ends_the_connection_with_its_code(name: str) -> None:
    code, broken = FURTHER[name]
    assert broken().code == f"bamboo_p2p.{code}"


def test_every_code_of_the_table_is_broken() -> None:
    table = {error.code: error.number for error in BambooP2pError.__subclasses__()}
    assert sorted(table.values()) == list(range(0x01, 0x0F))
    assert {f"bamboo_p2p.{code}" for code, _ in (VIOLATIONS | FURTHER).values()} == set(table)


def test_the_evidence_that_is_broken_was_sound() -> None:
    assert decode_entry(ONE, YAMF).log_id == ONE[LOG_ID_AT] == LOG[1]
    assert payload(1) == b"1,1,1,1,"
