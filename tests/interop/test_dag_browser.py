"""The client for browsers beside the models: it accepts what they accept, and refuses what they refuse."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import nacl.bindings
import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_from_text, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.multihash import BLAKE2B_256, SHA2_512, block_hasher, check_block
from culm_models.dag.car import read_car, write_car
from culm_models.dag.errors import DagError
from culm_models.dag.order.total_order import order_of
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.ucan.forms import jwt_text
from culm_models.dag.ucan.signing import verified_ucan
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.shard_blocks import open_shard
from tests.interop.dag_browser import BrowserClient, browser_client
from tests.models.dag.hostile_bytes import hostile
from tests.models.dag.recorded import recorded
from tests.models.dag.signers import DIDS, KEYS, LINK, ORIGIN, publish, ucan

ID = KEYS[0]
_GROUP_ORDER = (1 << 252) + 27742317777372353535851937790883648493


@pytest.fixture(scope="module")
def client() -> Iterator[BrowserClient]:
    with browser_client() as opened:
        yield opened


def verdict(call: Callable[..., object], *arguments: object) -> str:
    """`ok`, or the code that the models refuse with."""
    try:
        call(*arguments)
    except DagError as error:
        return error.code.removeprefix("dag.")
    return "ok"


def said(client: BrowserClient, do: str, **arguments: Any) -> str:
    return str(client.ask(do, **arguments).get("refused", "ok"))


def block(data: bytes, codec: int = DAG_CBOR) -> dict[str, str]:
    return {"cid": cid_of(codec, data).text, "bytes": data.hex()}


def good_nodes() -> list[bytes]:
    listed = recorded("nodes")["decode"] + [row["base"] for row in recorded("one_cid")]
    return [bytes.fromhex(row["hex"]) for row in listed]


def test_nodes_of_the_vectors(client: BrowserClient) -> None:
    for row in recorded("nodes")["decode"]:
        assert said(client, "replica.decode", bytes=row["hex"]) == row.get("reason", "ok"), row["name"]
        if row["expected"] == "accept":
            assert client.ok("replica.decode", bytes=row["hex"])["cid"] == row["cid"]


def test_altered_nodes_and_values_get_the_verdict_and_the_code_of_the_models(client: BrowserClient) -> None:
    for data in hostile(16, 3_000, good_nodes()):
        assert said(client, "replica.decode", bytes=data.hex()) == verdict(decode_node, data), data.hex()
        again = verdict(decode_dag_cbor, data)
        answer = client.ask("cbor.again", bytes=data.hex())
        assert answer == ({"ok": {"bytes": data.hex()}} if again == "ok" else {"refused": again}), data.hex()


def test_values_of_every_kind_have_one_encoding(client: BrowserClient) -> None:
    integers = [2**32, 2**64 - 1, -(2**64), 65_536, 255, 24]
    value = {
        "": None,
        "é": [1.5, -0.0, *integers],
        "b": b"\0" * 300,
        "\uffff": True,
        "\U00010000": LINK,
        "a": "\ufeff",
    }
    data = encode_dag_cbor(value)
    assert client.ok("cbor.again", bytes=data.hex()) == {"bytes": data.hex()}


def test_cids(client: BrowserClient) -> None:
    rng = Random(16)
    for _ in range(300):
        cid = make_cid(1, rng.choice((RAW, CAR, 1 << 40)), rng.choice((0, 0x12, 1 << 62)), rng.randbytes(32))
        for text in (cid.text, "".join(rng.sample(cid.text, len(cid.text))), cid.text[:-1], cid.text.upper()):
            answer = said(client, "cid.parse", cid=text)
            assert answer == verdict(cid_from_text, text), text
        assert client.ok("cid.parse", cid=cid.text)["bytes"] == cid.raw.hex()
    old = make_cid(0, 0x70, 0x12, rng.randbytes(32))
    assert client.ok("cid.parse", cid=old.text)["bytes"] == old.raw.hex()


@pytest.mark.parametrize("code", [0, 0x12, SHA2_512, BLAKE2B_256, 0x1E, 0x99])
def test_hashes(client: BrowserClient, code: int) -> None:
    for size in (0, 1, 127, 128, 129, 256, 1000):
        data = Random(size).randbytes(size)
        hashed = code in (0x12, SHA2_512, BLAKE2B_256)
        digest = block_hasher(make_cid(1, RAW, code, b"")) if hashed else None
        if digest is not None:
            digest.update(data)
        cid = make_cid(1, RAW, code, data if digest is None else digest.digest())
        for other in (cid, make_cid(1, RAW, code, cid.digest[:-1]), make_cid(1, RAW, code, b"")):
            answer = said(client, "cid.check", cid=other.text, bytes=data.hex())
            assert answer == verdict(check_block, other, data)


def test_cars_and_shards(client: BrowserClient) -> None:
    blocks = [(cid_of(DAG_CBOR, data), data) for data in good_nodes()]
    identity = make_cid(1, RAW, 0, b"here")
    good = [
        write_car([], []),
        write_car([blocks[0][0]], blocks[:3]),
        write_car([identity], [(identity, b"here"), *blocks[:1], *blocks[:1]]),
        *(bytes.fromhex(row["hex"]) for row in recorded("nodes")["specification"]),
    ]
    for data in [*good, *hostile(17, 1_500, good), b"", bytes.fromhex("0aa16776657273696f6e02")]:
        answer = client.ask("car.decode", bytes=data.hex())
        expected = verdict(read_car, data)
        assert answer.get("refused", "ok") == expected, data.hex()
        if expected == "ok":
            car = read_car(data)
            assert answer["ok"]["roots"] == [root.text for root in car.roots]
            assert [block["bytes"] for block in answer["ok"]["blocks"]] == [
                bytes(s.data).hex() for s in car.sections
            ]
    shard = encode_dag_cbor({"blocks": [{"a": LINK}, 1.5], "roots": [LINK]})
    for data in (good[1], shard, encode_dag_cbor({"blocks": []}), encode_dag_cbor({"blocks": [], "more": 1})):
        cid = cid_of(CAR if data is good[1] else DAG_CBOR, data)
        assert said(client, "shard.open", cid=cid.text, bytes=data.hex()) == verdict(open_shard, cid, data)
    opened = dict(client.ok("shard.open", **block(shard))["blocks"])
    assert opened == {
        cid.text: bytes(data).hex() for cid, data in open_shard(cid_of(DAG_CBOR, shard), shard).blocks.items()
    }


def test_ucans_and_chains_of_the_vectors_under_both_policies(client: BrowserClient) -> None:
    for row in recorded("ucan")["verify"]:
        for policy in ("bound", "bearer"):
            arguments = {
                "subject": row["id"],
                "blocks": [{"cid": b["cid"], "bytes": b["hex"]} for b in row["blocks"]],
                "policy": policy,
                **{
                    name: row[name] for name in ("publish", "now", "services", "leeway", "jwt") if name in row
                },
                **({} if "jwt" in row else {"leaf": row["leaf"]}),
            }
            answer = said(client, "ucan.verify", **arguments)
            assert answer == row["reasons"].get(policy, "ok"), (row["name"], policy)


def test_altered_ucans_get_the_code_of_the_models(client: BrowserClient) -> None:
    named = {"link": LINK, "origin": ORIGIN}
    capability = {"can": "dag/publish", "with": DIDS[0], "nb": named}
    leaf = ucan(
        0,
        0,
        capability,
        nnc="\U00010000\uffff",
        nbf=5,
        fct=[{"\uffff": LINK, "\U00010000": b"\1"}],
        exp=10**9,
    )
    texts = [jwt_text(leaf), jwt_text(ucan(1, 0, {"can": "a/b", "with": "x:y"}))]
    plain = [base64.urlsafe_b64decode(part + "==") for text in texts for part in text.split(".")[:2]]
    cases = [(DAG_CBOR, data) for data in [leaf.block, *hostile(18, 700, [leaf.block])]]
    cases += [
        (RAW, data) for data in [*(t.encode() for t in texts), *hostile(19, 300, [t.encode() for t in texts])]
    ]
    for head, payload in zip(hostile(20, 700, plain[::2]), hostile(21, 700, plain[1::2]), strict=True):
        parts = (
            [plain[0], payload, bytes(64)]
            if payload[:1] < b"0" or len(head) % 3
            else [head, plain[1], bytes(64)]
        )
        cases.append((RAW, b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)))
    for head, payload in ((plain[0], b"[]"), (plain[0], plain[1].replace(b"dag/publish", b"dag/ publish"))):
        parts = [head, payload, bytes(64)]
        cases.append((RAW, b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)))
    publishing = {"link": LINK.text, "origin": ORIGIN.text}
    for codec, data in cases:
        cid = cid_of(codec, data)
        answer = said(
            client,
            "ucan.verify",
            leaf=cid.text,
            blocks=[block(data, codec)],
            subject=DIDS[0],
            publish=publishing,
            now=7,
        )
        expected = verdict(verified_ucan, cid, data)
        if expected == "ok":
            expected = "ok" if data in (leaf.block, texts[0].encode()) else "ability"
        assert answer == expected, data


def test_signatures_are_accepted_by_the_rule_of_libsodium_with_and_without_the_help_of_the_browser(
    client: BrowserClient,
) -> None:
    rng = Random(22)
    for at in range(12):
        key, secret = nacl.bindings.crypto_sign_seed_keypair(rng.randbytes(32))
        message = rng.randbytes(at * 20)
        good = nacl.bindings.crypto_sign(message, secret)[:64]
        s = int.from_bytes(good[32:], "little") + _GROUP_ORDER
        flipped = bytearray(good)
        flipped[rng.randrange(64)] ^= 1 << rng.randrange(8)
        for signature in (good, good[:32] + s.to_bytes(32, "little"), bytes(flipped)):
            _same_verdict(client, key, signature, message)
    for y in (0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, _ORDER_EIGHT, 2**255 - 19 - _ORDER_EIGHT):
        for sign in (0, 1):
            point = (y | sign << 255).to_bytes(32, "little")
            # S of 0 and such points satisfy the equation for many messages.
            for message in (b"", b"a", b"b", b"c"):
                _same_verdict(client, point, point + bytes(32), message)
                _same_verdict(client, point, (1).to_bytes(32, "little") + bytes(32), message)


_ORDER_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303021


def _same_verdict(client: BrowserClient, key: bytes, signature: bytes, message: bytes) -> None:
    try:
        nacl.bindings.crypto_sign_open(signature + message, key)
        expected = True
    except nacl.exceptions.BadSignatureError:
        expected = False
    answer = client.ok("ed25519", key=key.hex(), signature=signature.hex(), message=message.hex())
    assert answer["arithmetic"] is expected, (key.hex(), signature.hex())
    assert answer["browser"] in (expected, None)


def test_orders_of_the_vectors(client: BrowserClient) -> None:
    for row in recorded("order"):
        answer = client.ok("order.of", ops=[[step["cid"], step.get("prior")] for step in row["steps"]])
        for step, change in zip(row["steps"], answer["changes"], strict=True):
            assert change == {name: step[name] for name in ("tip", "from", "changed", "held")}, row["name"]
        for name in ("heads", "order", "tip", "key", "held"):
            assert answer[name] == row[name], row["name"]


def test_orders_of_random_trees(client: BrowserClient) -> None:
    rng = Random(23)
    for number in range(150):
        cids = [cid_of(DAG_CBOR, rng.randbytes(4)) for _ in range(rng.choice((3, 10, 60, 200)))]
        lean = rng.random()
        ops: list[tuple[Cid, Cid | None]] = []
        for at, cid in enumerate(cids):
            prior = cids[at - 1] if rng.random() < lean else rng.choice(cids[:at]) if at else None
            ops.append((cid, prior if at else None))
        rng.shuffle(ops)
        order = order_of(ops)
        answer = client.ok("order.of", ops=[[cid.text, prior and prior.text] for cid, prior in ops])
        assert answer["order"] == [cid.text for cid in order.order()], number
        assert answer["heads"] == [cid.text for cid in order.heads()]
        assert answer["key"] == [cid.text for cid in order.tip_key()]


def test_nobody_makes_a_second_operation_out_of_an_authorised_one(client: BrowserClient) -> None:
    for row in recorded("one_cid"):
        ucans = [{"cid": b["cid"], "bytes": b["hex"]} for b in row["blocks"]]
        nodes = [{"cid": b["cid"], "bytes": b["hex"]} for b in (row["base"], *row["variants"])]
        for id in {row["id"], *(_id_of(node["bytes"]) for node in nodes)}:
            answer = client.ok("published", id=id, nodes=nodes, ucans=ucans)
            assert answer["order"] == ([row["base"]["cid"]] if id == row["id"] else [])
        refused = {
            **client.ok("published", id=row["id"], nodes=nodes, ucans=ucans)["refused"],
            **{
                cid: code
                for id in {_id_of(node["bytes"]) for node in nodes}
                for cid, code in client.ok("published", id=id, nodes=nodes, ucans=ucans)["refused"].items()
            },
        }
        assert refused == {b["cid"]: b["reason"] for b in row["variants"]}, row["name"]


def _id_of(node: str) -> str:
    at = node.find("6269645820")
    return node[at + 10 : at + 74]


@pytest.mark.parametrize("case", recorded("publish"), ids=lambda case: case["name"])
def test_what_is_published_in_the_vectors(client: BrowserClient, case: dict[str, Any]) -> None:
    steps = [step for step in case["steps"] if "hex" in step]
    machine = PublishMachine(ValidationRules(policy=case["open"].get("policy", "bound")))
    receipts: dict[str, list[int]] = {}
    nodes: dict[str, dict[str, str]] = {}
    ucans: dict[str, dict[str, str]] = {}
    for step in steps:
        cid, data = cid_from_text(step["cid"]), bytes.fromhex(step["hex"])
        verdict(machine.add, cid, data, step["now"])
        receipts.setdefault(step["cid"], []).append(step["now"])
        if cid.codec in (DAG_CBOR, RAW):
            is_node = cid.codec == DAG_CBOR and b"fchange" in data
            (nodes if is_node else ucans)[step["cid"]] = {"cid": step["cid"], "bytes": step["hex"]}
    for id in {step["state"] for step in case["steps"] if "state" in step}:
        answer = client.ok(
            "published",
            id=id,
            nodes=list(nodes.values()),
            ucans=list(ucans.values()),
            receipts=receipts,
            **case["open"],
        )
        order = machine.order(bytes.fromhex(id))
        assert answer["order"] == [cid.text for cid in order.order()]
        assert answer["tip"] == (None if order.tip is None else order.tip.text)
        states = machine.states(bytes.fromhex(id))
        assert answer["revoked"] == sorted(cid.text for cid, state in states.items() if state == "revoked")
        assert answer["refused"].keys() >= {cid.text for cid in machine.refused}
        wanted = [step["want"] for step in case["steps"] if step.get("state") == id][-1]
        assert answer["order"] == wanted.get("order", answer["order"])


def test_what_stands_on_another_id_or_on_no_publish_is_refused(client: BrowserClient) -> None:
    other = publish(id=1)
    crossed = publish(prior=other.cid)
    append = decode_node(bytes.fromhex(recorded("nodes")["specification"][0]["hex"]))
    mixed = publish(prior=append.cid)
    late = publish(prior=crossed.cid)
    nodes = [block(node.data) for node in (late, mixed, crossed, other, append)]
    answer = client.ok("published", id=ID.hex(), nodes=nodes, ucans=[])
    assert (answer["order"], answer["waiting"]) == ([], [])
    assert answer["refused"] == {
        crossed.cid.text: "id_changed",
        mixed.cid.text: "mixed_chain",
        late.cid.text: "prior_refused",
    }
    assert client.ok("published", id=ID.hex(), nodes=nodes[:1], ucans=[])["waiting"] == [late.cid.text]
