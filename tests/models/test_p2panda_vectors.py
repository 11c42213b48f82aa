"""Byte for byte against p2panda's own library."""

from typing import Any

import pytest

from culm_models import bamboo
from culm_models.bamboo import hashes as yasmf
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from culm_models.p2panda.operations import identifiers, operation
from tests.support.p2panda import vectors

CHAINS = vectors.read("chains.json")["chains"]
PUBLISHED = vectors.read("published.json")
AUTHOR = KeyPair.from_private_key(bytes.fromhex(PUBLISHED["private_key"]))
SCHEMA = PUBLISHED["schema_id"]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize("chain", CHAINS, ids=range(len(CHAINS)))
def test_a_chain_is_read_and_written_again_byte_for_byte(chain: dict[str, Any]) -> None:
    author = KeyPair.from_private_key(bytes.fromhex(chain["private_key"]))
    assert author.public_key.hex() == chain["public_key"]
    hashes: dict[int, bytes] = {}
    for row in chain["entries"]:
        entry_bytes, operation_bytes = bytes.fromhex(row["entry"]), bytes.fromhex(row["operation"])
        entry = bamboo.decode_entry(entry_bytes)
        bamboo.check_signature(entry_bytes, entry)
        bamboo.check_payload(entry, operation_bytes)
        bamboo.check_links(entry, hash_at=hashes.get)
        assert (entry.log_id, entry.seq_num) == (int(chain["log_id"]), row["seq_num"])
        assert (_hex(entry.skiplink), _hex(entry.backlink)) == (row["skiplink"], row["backlink"])
        hashes[entry.seq_num] = bamboo.hash_bytes(entry_bytes)
        assert hashes[entry.seq_num].hex() == row["hash"]

        decoded = operation.decode_operation(operation_bytes)
        fields = vectors.fields_of(row)
        previous = (
            None if row["previous"] is None else identifiers.view_id(map(bytes.fromhex, row["previous"]))
        )
        assert decoded == operation.Operation(1, row["action"], chain["schema_id"], previous, fields)

        for name, value in (decoded.fields or {}).items():
            # JSON knows no negative zero: whether a zero is one, only the operation's bytes tell.
            if value == 0.0 and fields is not None and isinstance(value, float):
                fields[name] = value
        rewritten = operation.encode_operation(
            row["action"], chain["schema_id"], previous=previous, fields=fields
        )
        assert rewritten == operation_bytes
        assert entry_bytes == bamboo.sign_entry(
            author,
            int(chain["log_id"]),
            row["seq_num"],
            rewritten,
            skiplink=hashes[bamboo.lipmaa(entry.seq_num)] if bamboo.needs_skiplink(entry.seq_num) else None,
            backlink=hashes.get(entry.seq_num - 1),
        )


def test_damaged_entries_are_judged_as_the_library_judges_them() -> None:
    for row in vectors.read("chains.json")["entry_mutations"]:
        entry_bytes = bytes.fromhex(row["entry"])
        try:
            bamboo.check_signature(entry_bytes, bamboo.decode_entry(entry_bytes))
        except CulmError:
            assert not row["decodes"]
        else:
            assert row["decodes"]


def test_published_hashes() -> None:
    for row in PUBLISHED["hashes"]:
        assert yasmf.hash_bytes(bytes.fromhex(row["data"])).hex() == row["hash"]


def test_the_published_create_operation() -> None:
    row = PUBLISHED["create"]
    payload = operation.encode_operation("create", SCHEMA, fields=row["fields"])
    assert payload.hex() == row["operation"]
    assert yasmf.hash_bytes(payload).hex() == row["payload_hash"]
    entry_bytes = bamboo.sign_entry(AUTHOR, row["log_id"], row["seq_num"], payload)
    assert entry_bytes.hex() == row["entry"]
    assert bamboo.hash_bytes(entry_bytes).hex() == row["entry_hash"]


def test_the_published_chain() -> None:
    chain = PUBLISHED["chain"]
    hashes: dict[int, bytes] = {}
    written: dict[int, tuple[bytes, bytes]] = {}
    for row in chain["entries"]:
        seq_num = row["seq_num"]
        if seq_num == 1:
            payload = operation.encode_operation("create", SCHEMA, fields=chain["first_fields"])
        elif seq_num == 14:
            payload = operation.encode_operation("delete", SCHEMA, previous=(hashes[13],))
        else:
            payload = operation.encode_operation(
                "update", SCHEMA, previous=(hashes[seq_num - 1],), fields={"name": f"n{seq_num}"}
            )
        entry_bytes = bamboo.sign_entry(
            AUTHOR,
            chain["log_id"],
            seq_num,
            payload,
            skiplink=hashes[row["lipmaa"]] if bamboo.needs_skiplink(seq_num) else None,
            backlink=hashes.get(seq_num - 1),
        )
        assert len(entry_bytes) == row["entry_size"]
        assert bamboo.lipmaa(seq_num) == row["lipmaa"]
        hashes[seq_num] = bamboo.hash_bytes(entry_bytes)
        assert hashes[seq_num].hex() == row["entry_hash"]
        written[seq_num] = entry_bytes, payload
    assert written[1][1].hex() == chain["first_operation"]
    assert written[4][0].hex() == chain["fourth_entry"]
    assert written[14][1].hex() == chain["last_operation"]


def test_an_operation_with_every_kind_of_field() -> None:
    ids = {row["seq_num"]: bytes.fromhex(row["entry_hash"]) for row in PUBLISHED["chain"]["entries"]}
    fields: dict[str, operation.Value] = {
        "s": "Hello, Panda!",
        "i": -25,
        "fl": 1.5,
        "fl2": 12.3,
        "b": True,
        "by": bytes((0, 1, 2, 3)),
        "r": ids[1],
        "pr": identifiers.view_id((ids[3], ids[2])),
        "rl": (ids[4], ids[2]),
        "prl": (identifiers.view_id((ids[5],)), identifiers.view_id((ids[6], ids[7]))),
        "aa": 18,
    }
    data = bytes.fromhex(PUBLISHED["all_kinds"]["operation"])
    decoded = operation.decode_operation(data).fields
    assert decoded is not None
    assert {name: fields[name] for name in decoded} | {"by": decoded["by"], "r": decoded["r"]} == decoded
    assert operation.encode_operation("create", SCHEMA, fields=decoded) == data
