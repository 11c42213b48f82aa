"""Pools, setup bytes and messages of Bamboo Point-2-Point through lines, by the published vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from culm_models.bamboo.hashes import FLAVOURS, YAMF, YASMF
from tests.models.bamboo_p2p.logs import LOG, make_log
from tests.models.bamboo_p2p.vectors import FOLDER

MESSAGES: dict[str, Any] = json.loads((FOLDER / "messages.json").read_text())
POOLS: dict[str, Any] = json.loads((FOLDER / "pools.json").read_text())
HASHES = {name: flavour.hash(b"").hex() for name, flavour in FLAVOURS.items()}
PROPOSE: dict[str, Any] = {
    "type": "propose",
    "id": 0,
    "public_key": LOG[0].hex(),
    "log_id": LOG[1],
    "start": 4,
    "lower": 4,
    "eagerness": "all",
}
METADATA: dict[str, Any] = {"type": "metadata", "payload_size": 0, "signature": "00" * 64}


OF_EITHER_FLAVOUR = pytest.mark.parametrize(
    ("flavour", "shown"), [("yamf", MESSAGES), ("yasmf", MESSAGES["yasmf"])], ids=["yamf", "yasmf"]
)


@OF_EITHER_FLAVOUR
def test_messages_are_encoded_and_decoded_as_published(
    talk: Any, flavour: str, shown: dict[str, Any]
) -> None:
    for channel in ("control", "data"):
        for one in shown[channel]:
            given = {"backlink_expected": one["backlink_expected"]} if "backlink_expected" in one else {}
            encoded = talk.ok(f"bamboo_p2p.{channel}.encode", message=one["message"], hash=flavour)
            assert encoded == {"bytes": one["bytes"]}
            found = talk.ok(f"bamboo_p2p.{channel}.decode", bytes=one["bytes"], hash=flavour, **given)
            assert found == {"messages": [one["message"]], "used": len(one["bytes"]) // 2}


@OF_EITHER_FLAVOUR
def test_an_incomplete_tail_is_left_and_no_error(talk: Any, flavour: str, shown: dict[str, Any]) -> None:
    for channel, whole in (("control", "0000"), ("data", "02")):
        for one in shown[channel]:
            given = {"backlink_expected": one["backlink_expected"]} if "backlink_expected" in one else {}
            for cut in range(0, len(one["bytes"]), 2):
                text = whole + one["bytes"][:cut]
                found = talk.ok(f"bamboo_p2p.{channel}.decode", bytes=text, hash=flavour, **given)
                assert (len(found["messages"]), found["used"]) == (1, len(whole) // 2)


@OF_EITHER_FLAVOUR
def test_bytes_that_can_never_become_a_message_are_an_error(
    talk: Any, flavour: str, shown: dict[str, Any]
) -> None:
    for channel, texts in shown["malformed"].items():
        for text in texts:
            code = talk.code(f"bamboo_p2p.{channel}.decode", bytes=text, hash=flavour)
            assert code == "bamboo_p2p.malformed"


def test_the_flavour_is_yamf_if_nothing_else_is_said(talk: Any) -> None:
    encoded = talk.ok("bamboo_p2p.data.encode", message={**METADATA, "payload_hash": HASHES["yamf"]})
    assert talk.ok("bamboo_p2p.data.decode", **encoded)["used"] == 1 + 1 + YAMF.size + 64


@pytest.mark.parametrize(("flavour", "other"), [("yamf", "yasmf"), ("yasmf", "yamf")])
def test_a_hash_of_another_form_is_not_encoded(talk: Any, flavour: str, other: str) -> None:
    as_wide = "ffff" + HASHES[flavour][4:]
    for wrong in (HASHES[other], as_wide, "00"):
        for name in ("payload_hash", "backlink"):
            message = {**METADATA, "payload_hash": HASHES[flavour], name: wrong}
            code = talk.code("bamboo_p2p.data.encode", message=message, hash=flavour)
            assert code == "conform.argument"
        message = {**PROPOSE, "expected_hash": wrong}
        assert talk.code("bamboo_p2p.control.encode", message=message, hash=flavour) == "conform.argument"


def test_evidence_that_is_no_entry_of_the_flavour_is_not_encoded(talk: Any) -> None:
    for entry in ("00", make_log(1, YASMF)[0].entry_bytes.hex(), make_log(1)[0].entry_bytes.hex() + "00"):
        message = {"type": "cancel", "id": 0, "code": 133, "entries": [entry]}
        assert talk.code("bamboo_p2p.control.encode", message=message) == "bamboo_p2p.malformed"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "cancel", "id": 0, "code": 133},
        {"type": "cancel", "id": 0, "code": 134},
        {"type": "cancel", "id": 0, "code": 128, "seq_num": 1},
        {"type": "adjust", "id": 0},
        {"type": "adjust", "id": 0, "eagerness": "threshold"},
        PROPOSE,
        {**PROPOSE, "lower": 1, "end": 9},
        {**PROPOSE, "lower": 1, "threshold": 9},
    ],
)
def test_fields_that_do_not_belong_together_are_not_encoded(talk: Any, message: dict[str, Any]) -> None:
    assert talk.code("bamboo_p2p.control.encode", message=message) == "bamboo_p2p.malformed"


def test_setup_bytes_are_as_published(talk: Any) -> None:
    for one in MESSAGES["setup"]:
        fields = {name: value for name, value in one.items() if name != "bytes"}
        assert talk.ok("bamboo_p2p.setup.encode", **fields) == {"bytes": one["bytes"]}
        used = len(one["bytes"]) // 2
        assert talk.ok("bamboo_p2p.setup.decode", bytes=one["bytes"] + "00") == {**fields, "used": used}
        assert talk.ok("bamboo_p2p.setup.decode", bytes=one["bytes"][:-2]) == {"used": 0}


def test_pools_and_paths_are_as_published(talk: Any) -> None:
    for one in POOLS["pools"]:
        found = talk.ok("bamboo.pool", n=one["n"])
        assert found == {side: [int(number) for number in one[side]] for side in ("lower", "upper")}
    for one in POOLS["paths"]:
        found = talk.ok("bamboo.pool", start=one["start"], end=one["end"])
        assert found == {"path": [int(number) for number in one["path"]]}
    assert talk.code("bamboo.pool", start=5, end=4) == "conform.argument"
    assert talk.code("bamboo.pool", n=0) == "conform.argument"


def test_a_payload_of_a_yamf_log_is_checked_for_hash_and_size_alone(talk: Any) -> None:
    """Any bytes may be a payload there; entries are of BLAKE3 if nothing else is said."""
    one = make_log(1)[0]
    given = {"entry": one.entry_bytes.hex(), "hash": "yamf"}
    found = talk.ok("bamboo.entry.decode", operation=(one.payload or b"").hex(), **given)
    assert found["hash"] == YAMF.hash(one.entry_bytes).hex()
    wrong = "ff" * len(one.payload or b"")
    assert talk.code("bamboo.entry.decode", operation=wrong, **given) == "bamboo.payload_hash"
    assert talk.code("bamboo.entry.decode", operation=wrong + "00", **given) == "bamboo.payload_size"
    assert talk.code("bamboo.entry.decode", entry=given["entry"]) == "bamboo.hash_form"
