"""Writes tests/vectors/bamboo_p2p: `python -m tests.models.bamboo_p2p.vectors`.

What is written is what the models say; the tests of the rules are what makes it right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from culm_models.bamboo.certificate_pool import lower_pool, shortest_path, upper_pool
from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import FLAVOURS, YAMF, YASMF, HashFlavour
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.control import encode_control, encode_setup
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    CompressedPayload,
    ControlMessage,
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
from culm_models.bymux import Frame, FrameType, encode_frame
from culm_models.conform.bamboo_p2p.codecs import decode_all_data
from culm_models.conform.bamboo_p2p.messages import MODE, SETUP, control_messages
from tests.models.bamboo_p2p.hand_made import proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, Pair, make_log
from tests.models.bamboo_p2p.recorded import Recording

FOLDER: Final = Path(__file__).parents[2] / "vectors" / "bamboo_p2p"
LENGTH: Final = 17
_RAW: Final = BambooSettings(send_window=0, receive_window=0)


def entries() -> dict[str, Any]:
    """Two logs, one in each flavour, and a branch of the first entry."""
    return {
        "public_key": LOG[0].hex(),
        "log_id": LOG[1],
        **{
            name: [_entry(entry, flavour) for entry in make_log(LENGTH, flavour)]
            for name, flavour in _flavours()
        },
        "ended": [_entry(entry, YAMF) for entry in make_log(5, end_of_log=True)],
        "other_branch": _entry(_other_branch(), YAMF),
    }


def _flavours() -> list[tuple[str, HashFlavour]]:
    return sorted(FLAVOURS.items())


def _entry(new_entry: NewEntry, flavour: HashFlavour) -> dict[str, Any]:
    return {
        "seq_num": decode_entry(new_entry.entry_bytes, flavour).seq_num,
        "entry": new_entry.entry_bytes.hex(),
        "hash": flavour.hash(new_entry.entry_bytes).hex(),
        "payload": (new_entry.payload or b"").hex(),
    }


def _other_branch(flavour: HashFlavour = YAMF) -> NewEntry:
    return NewEntry(sign_entry(AUTHOR, LOG[1], 1, b"another", flavour=flavour), b"another")


def pools() -> dict[str, Any]:
    """Certificate pools and shortest paths."""
    numbers = [*range(1, 42), 100, 121, 122, 364, 1093, 100_000, 2**32 - 1, 2**53, 2**64 - 1]
    pairs = [(1, 1), (1, 13), (2, 8), (4, 12), (13, 100), (1, 100_000), (99_999, 100_000), (1, 2**64 - 1)]
    return {
        "pools": [
            {"n": str(n), "lower": _texts(lower_pool(n)), "upper": _texts(upper_pool(n))} for n in numbers
        ],
        "paths": [{"start": str(a), "end": str(b), "path": _texts(shortest_path(a, b))} for a, b in pairs],
    }


def _texts(numbers: Iterable[int]) -> list[str]:
    return [str(number) for number in numbers]


def messages() -> dict[str, Any]:
    """Setup bytes, and every message of both channels."""
    log = make_log(LENGTH)
    entry = decode_entry(log[7].entry_bytes, YAMF)
    expected = YAMF.hash(log[3].entry_bytes)
    evidence = (log[0].entry_bytes, _other_branch().entry_bytes)
    control: list[ControlMessage] = [
        Grant(0),
        Grant(64),
        Grant(2**64 - 1),
        proposal(0),
        proposal(2, 5, lower=5, expected_hash=expected, end=9, upper=13, mandatory=True),
        proposal(
            4, 8, end=8, eagerness=Eagerness.THRESHOLD, threshold=248, sparse=True, min_size=1, max_size=300
        ),
        proposal(248, 4, offset=0, expected_hash=expected, eagerness=Eagerness.NOTIFY),
        proposal(256, 4, offset=7, expected_hash=expected, payload_only=True, end=4),
        Adjust(1, Eagerness.NOTIFY),
        Adjust(1, Eagerness.ALL, may_skip=True),
        Adjust(1, Eagerness.THRESHOLD, 2, may_skip=True, end=3, upper=4, min_size=5, max_size=6),
        Adjust(1, max_size=256),
        *[Cancel(3, CancelCode(code)) for code in range(128, 133)],
        Cancel(3, CancelCode.HASH_MISMATCH, entries=(log[3].entry_bytes,)),
        Cancel(3, CancelCode.END_OF_LOG, 9),
        Cancel(3, CancelCode.FORKED, entries=evidence),
    ]
    data: list[tuple[Any, bytes]] = [
        (Switch(0), b""),
        (Notify(1), b""),
        (Notify(1000), b""),
        *[(Skip(reason), b"") for reason in SkipReason],
        (SkipBytes(300), b""),
        (RawPayload(3), b"abc"),
        (RawPayload(0), b""),
        (CompressedPayload(8, 6), bytes.fromhex("036162638502")),
        (Apology(), b""),
        (Cancelled(5), b""),
        (Metadata(False, None, entry.payload_size, entry.payload_hash, entry.signature), b""),
        (Metadata(True, entry.backlink, entry.payload_size, entry.payload_hash, entry.signature), b""),
    ]
    setups = [Setup(False, False, 0, 0), Setup(True, False, 65_536, 248), Setup(False, True, 1, 2**64 - 1)]
    return {
        "setup": [
            {
                **SETUP.show(setup),
                "bytes": encode_setup(setup).hex(),
            }
            for setup in setups
        ],
        "control": list(map(_control, control)),
        "data": [_data(message, body) for message, body in data],
        "malformed": {
            "control": ["88", "9f", "8500" + "02", "8500" + "00" * 34 + "00"],
            "data": ["01", "0a", "0f", "11", "1f", "21", "7f", "82", "ff", "80f801", "80000020"],
        },
        "yasmf": _yasmf_messages(),
    }


def _control(message: ControlMessage) -> dict[str, Any]:
    return {"message": control_messages(YAMF).show(message), "bytes": encode_control(message).hex()}


def _yasmf_messages() -> dict[str, Any]:
    """The messages that hold hashes, in the other flavour; and some that hold one of the wrong flavour."""
    log = make_log(LENGTH, YASMF)
    entry = decode_entry(log[7].entry_bytes, YASMF)
    expected = YASMF.hash(log[3].entry_bytes)
    of_yamf = proposal(2, 5, lower=5, expected_hash=YAMF.hash(b""), end=9)
    control: list[ControlMessage] = [
        proposal(2, 5, lower=5, expected_hash=expected, end=9, upper=13, mandatory=True),
        proposal(248, 4, offset=0, expected_hash=expected, eagerness=Eagerness.NOTIFY),
        Cancel(3, CancelCode.HASH_MISMATCH, entries=(log[3].entry_bytes,)),
        Cancel(3, CancelCode.FORKED, entries=(log[0].entry_bytes, _other_branch(YASMF).entry_bytes)),
    ]
    data = [
        Metadata(False, None, entry.payload_size, entry.payload_hash, entry.signature),
        Metadata(True, entry.backlink, entry.payload_size, entry.payload_hash, entry.signature),
    ]
    return {
        "control": list(map(_control, control)),
        "data": [_data(message, b"", YASMF) for message in data],
        "malformed": {"control": [encode_control(of_yamf).hex()], "data": ["80000040"]},
    }


def _data(message: Any, body: bytes, flavour: HashFlavour = YAMF) -> dict[str, Any]:
    encoded = encode_data(message) + body
    expected = [isinstance(message, Metadata) and message.backlink is not None]
    decoded = decode_all_data(encoded, flavour, expected)["messages"][0]
    return {
        "message": decoded,
        "bytes": encoded.hex(),
        **({"backlink_expected": expected} if expected[0] else {}),
    }


def bymux() -> dict[str, Any]:
    """Frames of every type and width, and what ends an end of a connection."""
    frames: list[tuple[Frame, bytes]] = [
        (Frame(FrameType.CREDIT, 1, 262_144), b""),
        (Frame(FrameType.CREDIT, 1, 0), b""),
        (Frame(FrameType.CREDIT, 1, 2**64 - 1), b""),
        (Frame(FrameType.CREDIT, None, 1), b""),
        (Frame(FrameType.WRITE, 0, 3), b"abc"),
        (Frame(FrameType.WRITE, 300, 0), b""),
        (Frame(FrameType.WRITE, None, 2), b""),
        *[(Frame(kind, 1), b"") for kind in FrameType if kind > FrameType.WRITE],
        *[(Frame(kind), b"") for kind in FrameType if kind > FrameType.WRITE],
        (Frame(FrameType.PING, 2**40), b""),
    ]
    return {
        "frames": [
            {
                "type": frame.type.name.lower(),
                **({"stream": frame.stream} if frame.stream is not None else {}),
                **(
                    {"bytes": body.hex()}
                    if frame.type is FrameType.WRITE and frame.stream is not None
                    else {"amount": frame.amount}
                    if frame.amount is not None
                    else {}
                ),
                "encoded": (encode_frame(frame) + body).hex(),
            }
            for frame, body in frames
        ],
        "end_refuses": [
            {"window": 4, "bytes": "c0", "code": "bymux.type"},
            {"window": 4, "bytes": "200201" + "00", "code": "bymux.stream"},
            {"window": 4, "bytes": "3002", "code": "bymux.stream"},
            {"window": 4, "bytes": "50", "code": "bymux.stream"},
            {"window": 4, "bytes": "2001050000000000", "code": "bymux.credit"},
            {"window": 4, "bytes": "000001", "code": "bymux.credit"},
            {"window": 4, "bytes": "0301ffffffffffffffff000101", "code": "bymux.credit"},
            {"window": 4, "bytes": "8001", "code": "bymux.closed"},
            {"window": 4, "bytes": "a000", "code": "bymux.closed"},
        ],
    }


def refusals() -> list[dict[str, Any]]:
    """What ends a connection, as bytes to a reactive end that proposed nothing."""
    from tests.models.bamboo_p2p.test_bamboo_p2p_violations import VIOLATIONS

    cases = []
    for name, (code, broken) in VIOLATIONS.items():
        made = broken()
        assert made.end.dropped is not None
        is_own = any(request.mine for request in made.end.requests)
        if is_own or "for ever" in name or made.end.credit or made.end.dropped.number == 0x0E:
            continue
        policy = made.settings.policy
        cases.append(
            {
                "name": name,
                "code": f"bamboo_p2p.{code}",
                "number": made.end.dropped.number,
                "holds": [decode_entry(entry.entry_bytes, YAMF).seq_num for entry in made.held],
                "settings": {
                    "receive": MODE.show(made.settings.accepts_greedy),
                    "receive_window": made.settings.receive_window,
                    "credit": made.settings.credit,
                    "policy": {
                        "eagerness": policy.eagerness.name.lower(),
                        **({"threshold": policy.threshold} if policy.threshold is not None else {}),
                        "may_skip": policy.may_skip,
                        "max": policy.max_size,
                    },
                },
                "said": [{"channel": channel, "bytes": data.hex()} for channel, data in made.said],
            }
        )
    return cases


def sessions(split: int | None = None) -> list[dict[str, Any]]:
    """Whole sessions, both ways, until nothing is left to say; `split`: bytes that arrive at a time."""
    log, short = make_log(LENGTH), make_log(LENGTH)[:4]
    other = make_log(LENGTH, YASMF)
    bare = [NewEntry(entry.entry_bytes) for entry in log]
    ended = make_log(5, end_of_log=True)
    part = log[3].payload or b""
    wrong = NewEntry(log[0].entry_bytes, None, ((0, b"?"),))
    greedy = BambooSettings(sends_greedily=True, accepts_greedy=True, send_window=0, receive_window=0)
    refuses = BambooSettings(send_window=0, policy=Policy(answer=PolicyAnswer.REFUSE))

    def asks(by: int, start: int, /, **wants: Any) -> Callable[[Pair], None]:
        return lambda pair: _propose(pair, by, RequestedRange(*LOG, start, **wants))

    both = (_RAW, _RAW)
    plans: list[tuple[str, HashFlavour, tuple[BambooSettings, BambooSettings], Any, Any, list[Any]]] = [
        ("a whole log is fetched", YAMF, both, log, (), [asks(1, 1, end=LENGTH)]),
        ("a whole log is fetched, YASMF", YASMF, both, other, (), [asks(1, 1, end=LENGTH)]),
        ("one entry and its pool, YASMF", YASMF, both, other, (), [asks(1, 6, end=6, upper=13)]),
        ("the rest of a log, YASMF", YASMF, both, other, other[:4], [asks(1, 5, end=9)]),
        (
            "a payload from an offset, YASMF",
            YASMF,
            both,
            other,
            [NewEntry(other[3].entry_bytes, None, ((0, part[:5]),))],
            [asks(1, 4, end=4, offset=5)],
        ),
        ("a forked log, YASMF", YASMF, both, other[:4], [_other_branch(YASMF)], [asks(0, 1, lower=1)]),
        ("one entry and its pool", YAMF, both, log, (), [asks(1, 6, end=6, upper=13)]),
        ("a sparse range", YAMF, both, log, (), [asks(1, 3, end=12, sparse=True)]),
        ("the rest of a log", YAMF, both, log, short, [asks(1, 5, end=9)]),
        ("payloads alone", YAMF, both, log, bare, [asks(1, 6, end=9, payload_only=True)]),
        (
            "a payload from an offset",
            YAMF,
            both,
            log,
            [NewEntry(log[3].entry_bytes, None, ((0, part[:5]),))],
            [asks(1, 4, end=4, offset=5)],
        ),
        (
            "a height by notifies, then four messages of a cancel",
            YAMF,
            both,
            log,
            (),
            [asks(1, 1, eagerness=Eagerness.NOTIFY), lambda pair: pair.ends[1].cancel(1, CancelCode.DONE)],
        ),
        ("sizes are skipped", YAMF, both, log[:6], (), [asks(1, 1, end=6, min_size=5, max_size=12)]),
        (
            "both ends have what the other lacks",
            YAMF,
            both,
            [log[0], bare[1], log[2], bare[3]],
            [bare[0], log[1], bare[2], log[3]],
            [asks(0, 1, end=4)],
        ),
        ("overlapping proposals", YAMF, both, log, log[:9], [[asks(0, 5, end=9), asks(1, 4, end=6)]]),
        (
            "an open range carries what is new",
            YAMF,
            both,
            log[:4],
            (),
            [asks(1, 1), lambda pair: pair.peers[0].add(log[4:6])],
        ),
        ("a log that has ended", YAMF, both, ended, (), [asks(1, 9, lower=1)]),
        ("a forked log", YAMF, both, log[:4], [_other_branch()], [asks(0, 1, lower=1)]),
        ("a refusal", YAMF, (_RAW, refuses), (), log, [asks(0, 1, end=4)]),
        ("an apology, and then the payload", YAMF, (greedy, greedy), [wrong], (), [
            asks(1, 1, end=1),
            lambda pair: pair.peers[0].add(log[:1]),
        ]),
        ("compressed payloads", YAMF, (BambooSettings(), BambooSettings()), log[:6], (), [asks(1, 1, end=6)]),
    ]  # fmt: skip
    cases = []
    for name, flavour, settings, first, second, steps in plans:
        recording = Recording(settings, flavour, (first, second), split)
        for step in steps:
            recording.do(step)
        cases.append({"name": name, **recording.to_json()})
    return cases


def _propose(pair: Pair, end: int, wanted: RequestedRange) -> None:
    pair.ends[end].propose(wanted)


FILES: Final[dict[str, Callable[[], Any]]] = {
    "entries.json": entries,
    "pools.json": pools,
    "messages.json": messages,
    "bymux.json": bymux,
    "refusals.json": refusals,
    "sessions.json": sessions,
}


def text_of(name: str) -> str:
    """What a file holds."""
    return json.dumps(FILES[name](), indent=1) + "\n"


if __name__ == "__main__":
    for file_name in FILES:
        (FOLDER / file_name).write_text(text_of(file_name))
