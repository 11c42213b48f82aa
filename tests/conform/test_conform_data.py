"""Varu64, hashes, entries, operations, schema ids and messages: published vectors, through lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent.parent / "vectors" / "p2panda"
PUBLISHED: dict[str, Any] = json.loads((VECTORS / "published.json").read_text())
FORMS: dict[str, Any] = json.loads((VECTORS / "entry-forms.json").read_text())
SPELLINGS: dict[str, Any] = json.loads((VECTORS / "operation-spellings.json").read_text())
CHAINS: dict[str, Any] = json.loads((VECTORS / "chains.json").read_text())
SCHEMA = PUBLISHED["schema_id"]
KEY = "2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96"
SYSTEM = ["schema_definition_v1"]
MESSAGES = [
    (
        {"type": "announce", "version": 1, "timestamp": 12345678, "schema_ids": SYSTEM},
        "8400011a00bc614e8174736368656d615f646566696e6974696f6e5f7631",
    ),
    (
        {"type": "sync_request", "session_id": 51, "mode": 0, "schema_ids": SYSTEM},
        "84011833008174736368656d615f646566696e6974696f6e5f7631",
    ),
    ({"type": "entry", "session_id": 1, "entry": "00", "operation": "84"}, "84020141004184"),
    ({"type": "sync_done", "session_id": 51, "live_mode": False}, "83031833f4"),
    (
        {"type": "have", "session_id": 51, "log_heights": [[KEY, 0, 1], [KEY, 3, 300]]},
        "830a183386" + ("7840" + KEY.encode().hex() + "0001") + ("7840" + KEY.encode().hex() + "0319012c"),
    ),
]
AQUADOGGO_HAVE = f"830a183381825820{KEY}82820001820319012c"


def text_fields(fields: dict[str, str]) -> dict[str, Any]:
    """Fields of text in the form of the line protocol."""
    return {name: {"type": "str", "value": value} for name, value in fields.items()}


@pytest.mark.parametrize(("n", "data"), [(0, "00"), (247, "f7"), (248, "f8f8"), (300, "f9012c")])
def test_varu64(talk: Any, n: int, data: str) -> None:
    assert talk.ok("varu64.encode", n=n) == {"bytes": data}
    assert talk.ok("varu64.decode", bytes=data + "ff") == {"n": n, "used": len(data) // 2}


def test_varu64_is_minimal(talk: Any) -> None:
    assert talk.code("varu64.decode", bytes="f801").startswith("varu64.")
    assert talk.code("varu64.decode", bytes="").startswith("varu64.")


def test_yasmf_hashes(talk: Any) -> None:
    for vector in PUBLISHED["hashes"]:
        assert talk.ok("yasmf.hash", bytes=vector["data"]) == {"hash": vector["hash"]}


def test_lipmaa(talk: Any) -> None:
    known = {4: 1, 8: 4, 12: 8, 13: 4, 17: 13, 26: 13, 39: 26, 40: 13}
    assert {n: talk.ok("bamboo.lipmaa", n=n)["n"] for n in known} == known


def test_the_published_entry(talk: Any) -> None:
    create = PUBLISHED["create"]
    operation = talk.ok(
        "p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=text_fields(create["fields"])
    )
    assert operation == {"operation": create["operation"]}
    signed = talk.ok(
        "bamboo.entry.sign",
        private_key=PUBLISHED["private_key"],
        log_id=0,
        seq_num=1,
        operation=create["operation"],
    )
    assert signed == {"entry": create["entry"], "hash": create["entry_hash"]}
    decoded = talk.ok("bamboo.entry.decode", entry=create["entry"], operation=create["operation"])
    assert decoded["payload_hash"] == create["payload_hash"]
    assert decoded["public_key"] == PUBLISHED["public_key"]
    assert (decoded["log_id"], decoded["seq_num"], decoded["end_of_log"]) == (0, 1, False)
    assert "backlink" not in decoded and "skiplink" not in decoded


def test_the_published_chain(talk: Any) -> None:
    hashes: list[str] = []
    for vector in PUBLISHED["chain"]["entries"]:
        seq_num, lipmaa = vector["seq_num"], vector["lipmaa"]
        arguments: dict[str, Any] = {"action": "create" if seq_num == 1 else "update", "schema_id": SCHEMA}
        links: dict[str, str] = {}
        if seq_num > 1:
            arguments["previous"] = [hashes[-1]]
            links["backlink"] = hashes[-1]
            if lipmaa != seq_num - 1:
                links["skiplink"] = hashes[lipmaa - 1]
        if seq_num == 14:
            arguments["action"] = "delete"
        else:
            first = PUBLISHED["chain"]["first_fields"]
            arguments["fields"] = text_fields(first if seq_num == 1 else {"name": f"n{seq_num}"})
        operation = talk.ok("p2panda.operation.encode", **arguments)["operation"]
        signed = talk.ok(
            "bamboo.entry.sign",
            private_key=PUBLISHED["private_key"],
            log_id=300,
            seq_num=seq_num,
            operation=operation,
            **links,
        )
        assert (signed["hash"], len(signed["entry"]) // 2) == (vector["entry_hash"], vector["entry_size"])
        hashes.append(signed["hash"])


@pytest.mark.parametrize("form", FORMS["entries"], ids=lambda form: form["name"])
def test_entry_forms(talk: Any, form: dict[str, Any]) -> None:
    if form["name"] in ("tag2", "tag ff"):
        # The library takes other tags too; here a tag is 0 or 1.
        assert talk.code("bamboo.entry.decode", entry=form["entry"]) == "bamboo.tag"
    elif form["decodes"]:
        talk.ok("bamboo.entry.decode", entry=form["entry"])
    else:
        talk.code("bamboo.entry.decode", entry=form["entry"])


def test_operation_spellings(talk: Any) -> None:
    for form in SPELLINGS["operations"]:
        answer = talk.answer("p2panda.operation.decode", {"operation": form["operation"]})
        assert ("ok" in answer) == form["decodes"], (form["name"], answer)
        if form["decodes"]:
            assert answer["ok"]["action"] == form["action"]
            assert answer["ok"].get("previous") == (
                [text.lower() for text in form["previous"]] if form["previous"] is not None else None
            )


def test_every_kind_of_field_survives_a_round_trip(talk: Any) -> None:
    operation = PUBLISHED["all_kinds"]["operation"]
    decoded = talk.ok("p2panda.operation.decode", operation=operation)
    kinds = {field["type"] for field in decoded["fields"].values()}
    assert kinds == {"str", "int", "float", "bool", "bytes", "relation_list", "pinned_relation_list"}
    assert talk.ok("p2panda.operation.encode", **decoded) == {"operation": operation}


def test_what_has_an_order_is_put_in_it(talk: Any) -> None:
    low, high = ("0020" + digits * 32 for digits in ("11", "22"))

    def encoded(ids: list[str], names: str) -> str:
        fields: dict[str, Any] = {
            name: {"type": "pinned_relation_list", "value": [ids, [low]]} for name in names
        }
        answer = talk.ok(
            "p2panda.operation.encode", action="update", schema_id=SCHEMA, previous=ids, fields=fields
        )
        return str(answer["operation"])

    assert encoded([high, low, high], "za") == encoded([low, high], "az")
    assert talk.ok("p2panda.operation.decode", operation=encoded([high, low], "a"))["previous"] == [low, high]


@pytest.mark.parametrize("views", [[[]], [[], []], [[], ["0020" + "11" * 32]]])
def test_a_pinned_relation_list_with_an_empty_view_survives_a_round_trip(talk: Any, views: list[Any]) -> None:
    fields = {"f": {"type": "pinned_relation_list", "value": views}}
    encoded = talk.ok("p2panda.operation.encode", action="create", schema_id=SCHEMA, fields=fields)
    assert talk.ok("p2panda.operation.decode", operation=encoded["operation"])["fields"] == fields


def test_damaged_entries(talk: Any) -> None:
    for mutation in CHAINS["entry_mutations"]:
        talk.code("bamboo.entry.decode", entry=mutation["entry"])


def test_a_payload_that_is_not_the_entrys(talk: Any) -> None:
    create = PUBLISHED["create"]
    assert talk.code("bamboo.entry.decode", entry=create["entry"], operation="00") == "bamboo.payload_size"
    other = create["operation"][:-2] + "00"
    assert talk.code("bamboo.entry.decode", entry=create["entry"], operation=other) == "bamboo.payload_hash"


def test_a_signature_is_looked_at_unless_told_otherwise(talk: Any) -> None:
    damaged = PUBLISHED["create"]["entry"][:-2] + "00"
    assert talk.code("bamboo.entry.decode", entry=damaged) == "bamboo.signature"
    talk.ok("bamboo.entry.decode", entry=damaged, verify=False)


def test_schema_ids(talk: Any) -> None:
    system = talk.ok("p2panda.schema_id.parse", schema_id="blob_piece_v1")
    assert system == {"kind": "system", "name": "blob_piece", "version": 1}
    application = talk.ok("p2panda.schema_id.parse", schema_id=SCHEMA)
    assert application == {"kind": "application", "name": "venue", "view_id": [SCHEMA.split("_")[1]]}
    for wrong in ("", "venue", "foo_v1", "v_" + SCHEMA.split("_")[1], "venue__" + SCHEMA.split("_")[1]):
        talk.code("p2panda.schema_id.parse", schema_id=wrong)


@pytest.mark.parametrize(
    ("message", "data"), MESSAGES, ids=lambda value: value["type"] if type(value) is dict else ""
)
def test_messages_split_anywhere(talk: Any, message: dict[str, Any], data: str) -> None:
    assert talk.ok("p2panda.message.encode", message=message) == {"bytes": data}
    talk.ok("p2panda.stream.open", name="s")
    for split in range(0, len(data) + 1, 2):
        first = talk.ok("p2panda.stream.feed", name="s", bytes=data[:split])["messages"]
        second = talk.ok("p2panda.stream.feed", name="s", bytes=data[split:])["messages"]
        assert first + second == [message]


def test_three_spellings_of_have(talk: Any) -> None:
    have, flat = MESSAGES[4]
    assert talk.ok("p2panda.message.encode", message=have, compat="aquadoggo") == {"bytes": AQUADOGGO_HAVE}
    by_log = "830a183382" + flat[10:].replace("7840", "837840")
    talk.ok("p2panda.stream.open", name="s")
    assert talk.ok("p2panda.stream.feed", name="s", bytes=AQUADOGGO_HAVE + flat + by_log) == {
        "messages": [have] * 3
    }


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("80", "malformed"),
        ("a0", "malformed"),
        ("00", "malformed"),
        ("c0", "malformed"),
        ("ff", "malformed"),
        ("9f", "malformed"),
        ("8118ff", "unknown_type"),
        ("8400010500", "item_kind"),
        ("820318", None),
        ("83031833", None),
    ],
)
def test_bytes_that_are_no_message(talk: Any, data: str, code: str | None) -> None:
    talk.ok("p2panda.stream.open", name="s", max_message_bytes=64)
    if code is None:
        assert talk.ok("p2panda.stream.feed", name="s", bytes=data) == {"messages": []}, "unfinished"
        return
    for _ in range(2):
        assert talk.code("p2panda.stream.feed", name="s", bytes=data) == f"p2panda.message.{code}"
        data = MESSAGES[0][1]


def test_a_message_beyond_the_limit_is_refused_with_what_it_declares(talk: Any) -> None:
    talk.ok("p2panda.stream.open", name="s", max_message_bytes=64)
    code = talk.code("p2panda.stream.feed", name="s", bytes="8402005a7fffffff")
    assert code == "p2panda.message.too_large"


def test_a_message_exactly_at_the_limit_is_taken(talk: Any) -> None:
    message, data = MESSAGES[-1]
    size = len(data) // 2
    for limit, name in ((size, "fits"), (size - 1, "does not")):
        talk.ok("p2panda.stream.open", name=name, max_message_bytes=limit)
    assert talk.ok("p2panda.stream.feed", name="fits", bytes=data) == {"messages": [message]}
    assert talk.code("p2panda.stream.feed", name="does not", bytes=data) == "p2panda.message.too_large"
