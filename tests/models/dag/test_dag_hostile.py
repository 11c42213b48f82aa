"""Hostile nodes, CARs, tokens, files and frames: a refusal has a code, and what is taken has one form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_PB, Cid, cid_from_text, cid_of
from culm_models.dag.blocks.dag_cbor import dag_cbor_cid, decode_dag_cbor, encode_dag_cbor, scan_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json, encode_dag_json
from culm_models.dag.blocks.dag_pb import decode_dag_pb, encode_dag_pb
from culm_models.dag.car import CarStream, read_car, write_car
from culm_models.dag.errors import DagError, UcanSignature
from culm_models.dag.paths.resolve import resolve_path
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.replica.codec import decode_node, encode_append
from culm_models.dag.ucan.forms import jwt_text, ucan_from_block, ucan_from_raw
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import file_blocks, read_file
from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules, decode_rules
from culm_models.dag.walk.shard_blocks import open_shard
from culm_models.dag.wire.codec import decode_message, encode_message
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.hostile_bytes import hostile, hostile_values
from tests.models.dag.recorded import recorded
from tests.models.dag.signers import DIDS, KEYS, LINK, ORIGIN, publish, ucan

QUICK = 3_000
MILLION = 1_000_000

PUBLISH = publish(nnc="n", fct=[{"a": [LINK, b"bytes"]}])
LEAF = ucan(0, 0, {"can": "dag/publish", "with": DIDS[0], "nb": {"link": LINK, "origin": ORIGIN}}, nbf=5)
NODES = [bytes.fromhex(row["hex"]) for row in recorded("nodes")["decode"]] + [
    PUBLISH.data,
    encode_append([LINK, ORIGIN]).data,
]
UCANS = [bytes.fromhex(row["bytes"]) for row in recorded("ucan")["issue"] if "error" not in row]
UCANS.append(LEAF.block)
JWTS = [row["jwt"].encode() for row in recorded("ucan")["issue"] if "error" not in row]
JWTS += [jwt_text(LEAF).encode()]
BLOCKS = [(cid_of(DAG_CBOR, data), data) for data in NODES[-3:]]
CARS = [write_car([], BLOCKS), write_car([LINK], BLOCKS * 2), write_car([], [])]
SHARDS = [encode_dag_cbor({"blocks": [{"a": 1}, [LINK]], "roots": [LINK]}), encode_dag_cbor({"blocks": []})]
FRAMES = [bytes.fromhex(row["bytes"]) for row in recorded("messages")["valid"]]
HAMT = recorded("unixfs")["path"][-1]
PB_NODES = [
    bytes.fromhex(block["hex"]) for block in HAMT["blocks"] if cid_from_text(block["cid"]).codec == DAG_PB
]
VERDICTS = [DEFAULT_RULES.encode(), ValidationRules("bearer", True, (LEAF.claims.issuer,), 5).encode()]


def as_value(data: bytes) -> None:
    value = decode_dag_cbor(data)
    assert encode_dag_cbor(value) == data
    assert repr(scan_dag_cbor(data)) == repr(value)
    assert dag_cbor_cid(data) == cid_of(DAG_CBOR, data).raw


def as_node(data: bytes) -> None:
    node = decode_node(data)
    assert node.cid == cid_of(DAG_CBOR, data)
    assert encode_dag_cbor(decode_dag_cbor(data)) == data


def as_ucan(data: bytes) -> None:
    token = ucan_from_block(data)
    assert token.block == data
    verify_unless_recorded(token.signed_text, lambda: verify_signature(token), data in UCANS)


def as_jwt(data: bytes) -> None:
    token = ucan_from_raw(data)
    verify_unless_recorded(token.signed_text, lambda: verify_signature(token), data in JWTS)


SIGNED = {ucan_from_block(data).signed_text for data in UCANS}


def verify_unless_recorded(signed: bytes, verify: Callable[[], None], is_good: bool) -> None:
    """Of other bytes, no signature is good; of the recorded ones, each text is signed once."""
    try:
        verify()
    except UcanSignature:
        assert not is_good
        raise
    assert is_good
    assert signed in SIGNED


def as_car(data: bytes) -> None:
    stream = CarStream()
    pieces: list[tuple[Cid, bytes]] = []
    ended: str | None = None
    try:
        for at in range(0, len(data), 97):
            pieces += [(section.cid, bytes(section.data)) for section in stream.feed(data[at : at + 97])]
        stream.finish()
    except DagError as error:
        ended = error.code
    try:
        car = read_car(data)
    except DagError as error:
        assert ended == error.code
        raise
    assert ended is None
    assert [(section.cid, bytes(section.data)) for section in car.sections] == pieces
    for cid, block in pieces:
        assert cid.is_identity or cid_of(cid.codec, block).digest == cid.digest or not cid.is_sha2_256


def as_shard(data: bytes) -> None:
    shard = open_shard(cid_of(DAG_CBOR, data), data)
    assert all(cid_of(DAG_CBOR, bytes(block)) == cid for cid, block in shard.blocks.items())


def as_frame(data: bytes) -> None:
    assert encode_message(decode_message(data)) == data


def as_json(data: bytes) -> None:
    value = decode_dag_json(data)
    again = encode_dag_json(value)
    assert encode_dag_json(decode_dag_json(again)) == again


def as_pb(data: bytes) -> None:
    node = decode_dag_pb(data)
    assert decode_dag_pb(encode_dag_pb(node)) == node
    blocks = BlocksInMemory()
    blocks.update({cid_from_text(block["cid"]): bytes.fromhex(block["hex"]) for block in HAMT["blocks"]})
    root = cid_of(DAG_PB, data)
    blocks.put(root, data)
    readers: list[Callable[[], object]] = [
        lambda: resolve_path(root, ["name/17", "x"], blocks.find),
        lambda: resolve_path(root, [], blocks.find),
        lambda: list(list_directory(root, blocks.find)),
        lambda: list(file_blocks(root, blocks.find)),
        lambda: sum(map(len, read_file(root, blocks.find, 0, 1 << 16))),
    ]
    for read in readers:
        try:
            read()
        except DagError:
            continue


def as_verdict(data: bytes) -> None:
    assert decode_rules(data).encode() == data


KINDS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "value": (as_value, NODES + UCANS + SHARDS),
    "node": (as_node, NODES),
    "ucan": (as_ucan, UCANS),
    "jwt": (as_jwt, JWTS),
    "car": (as_car, CARS),
    "shard": (as_shard, SHARDS),
    "frame": (as_frame, [frame[1:] if len(frame) < 128 else frame[2:] for frame in FRAMES]),
    "json": (as_json, [b'{"a": [{"/": "bafkqaaa"}, {"/": {"bytes": "AA"}}, 1.5e3, "\\u00e9"]}', b"[[[]]]"]),
    "pb": (as_pb, PB_NODES),
    "verdict": (as_verdict, VERDICTS),
}


# Of these, values are altered, too, in blocks whose form stays right.
VALUED = ("node", "ucan", "shard", "verdict", "frame")


def inputs(kind: str, seed: int, count: int) -> Iterator[bytes]:
    good = KINDS[kind][1]
    yield from hostile(seed, count, good)
    if kind in VALUED:
        whole = [data for data in good if is_value(data)]
        yield from hostile_values(seed, count, whole)


def is_value(data: bytes) -> bool:
    try:
        decode_dag_cbor(data)
    except DagError:
        return False
    return True


def fuzz(kind: str, seed: int, count: int) -> None:
    read, _ = KINDS[kind]
    for data in inputs(kind, seed, count):
        try:
            read(data)
        except DagError as error:
            assert error.code.startswith("dag.")
        except Exception as error:
            raise AssertionError(f"{kind}: {data.hex()}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_bytes_are_refused_with_a_code_or_have_one_form(kind: str) -> None:
    fuzz(kind, 1, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_millions_of_hostile_bytes(kind: str) -> None:
    fuzz(kind, 2, MILLION)


def rewrap(seed: int, count: int) -> None:
    """Nobody makes a second operation of an authorised one, whatever he does to its bytes (R29)."""
    machine = PublishMachine()
    assert machine.add(PUBLISH.cid, PUBLISH.data, 10).is_admitted
    good = [PUBLISH.data]
    for data in chain(hostile(seed, count, good), hostile_values(seed, count, good)):
        if data == PUBLISH.data:
            continue
        try:
            taken = machine.add(cid_of(DAG_CBOR, data), data, 10)
        except DagError:
            continue
        # What is no publish, or for another id, or lacks its prior, is no second operation.
        assert not taken.is_admitted
    assert machine.order(KEYS[0]).order() == [PUBLISH.cid]


def test_an_altered_publish_is_no_second_operation() -> None:
    rewrap(3, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_million_altered_publishes_are_no_second_operation() -> None:
    for seed in range(100):
        rewrap(seed, MILLION // 100)


def test_signatures_of_another_scalar_or_with_bytes_behind_them_are_refused() -> None:
    """S + L is the same signature for lax verifiers; so is one with bits that base64 does not use."""
    order = (1 << 252) + 27742317777372353535851937790883648493
    scalar = int.from_bytes(LEAF.signature[32:], "little") + order
    other = LEAF.signature[:32] + scalar.to_bytes(32, "little")
    block = LEAF.block.replace(LEAF.signature, other)
    assert block != LEAF.block
    with pytest.raises(UcanSignature):
        verify_signature(ucan_from_block(block))
    text = jwt_text(LEAF)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for last in [letter for letter in letters if letter != text[-1]] + [text[-1] + end for end in "=A. \n"]:
        with pytest.raises(DagError):
            verify_signature(ucan_from_raw((text[:-1] + last).encode()))


def test_a_wide_and_deep_web_of_proofs_costs_no_more_than_its_proofs() -> None:
    """Sixteen delegations, each proved by the same sixteen of the next level."""
    from culm_models.dag.ucan.chain import ChainPolicy, Published, authorise
    from culm_models.dag.ucan.did_key import did_key

    level: list[Cid] = []
    known = {}
    for depth in range(15):
        made = [
            ucan(1, 1, {"can": "dag/*", "with": DIDS[0]}, nnc=f"{depth} {n}", prf=level) for n in range(16)
        ]
        known.update({token.cid: token for token in made})
        level = [token.cid for token in made]
    named = {"link": LINK, "origin": ORIGIN}
    leaf = ucan(1, 0, {"can": "dag/publish", "with": DIDS[0], "nb": named}, prf=level)
    asked: list[Cid] = []

    def find(cid: Cid) -> object:
        asked.append(cid)
        return known[cid]

    published = Published(did_key(KEYS[0]), {"link": LINK, "origin": ORIGIN})
    refused = authorise(leaf, published, find, 10, policy=ChainPolicy())  # type: ignore[arg-type]
    assert refused is not None
    assert refused.error.code == "dag.root_issuer"
    assert len(asked) <= 16 * 16 * 16
