"""Operations on varu64, YASMF hashes, lipmaa and Bamboo entries."""

from __future__ import annotations

from typing import Any, Final

from culm_models import bamboo, varu64
from culm_models.bamboo import hashes as yasmf
from culm_models.bamboo.entry import Entry
from culm_models.bamboo.hashes import FLAVOURS, YASMF
from culm_models.conform.arguments import Arguments
from culm_models.conform.forms import RecordForm
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.keys import KeyPair

_ENTRY: Final = RecordForm(Entry)


def _varu64_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"bytes": varu64.encode(arguments.integer("n")).hex()}


def _varu64_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    value, used = varu64.decode(arguments.octets("bytes"))
    return {"n": value, "used": used}


def _yasmf_hash(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"hash": yasmf.hash_bytes(arguments.octets("bytes")).hex()}


def _lipmaa(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"n": bamboo.lipmaa(arguments.integer("n", min_value=1))}


def _entry_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data, flavour = arguments.octets("entry"), arguments.word("hash", FLAVOURS, default=YASMF.name)
    entry = bamboo.decode_entry(data, flavour)
    if arguments.flag("verify", True):
        bamboo.check_signature(data, entry)
    if arguments.has("operation"):
        bamboo.check_payload(entry, arguments.octets("operation"), flavour)
    return {**_ENTRY.show(entry), "hash": flavour.hash(data).hex()}


def _entry_sign(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    flavour = arguments.word("hash", FLAVOURS, default=YASMF.name)
    entry = bamboo.sign_entry(
        KeyPair.from_private_key(arguments.octets("private_key", size=32)),
        arguments.integer("log_id"),
        arguments.integer("seq_num"),
        arguments.octets("operation"),
        skiplink=arguments.optional_octets("skiplink"),
        backlink=arguments.optional_octets("backlink"),
        end_of_log=arguments.flag("end_of_log", False),
        flavour=flavour,
    )
    return {"entry": entry.hex(), "hash": flavour.hash(entry).hex()}


OPERATIONS = [
    ConformOperation("varu64.encode", "n", "bytes", _varu64_encode),
    ConformOperation("varu64.decode", "bytes", "n, used", _varu64_decode),
    ConformOperation("yasmf.hash", "bytes", "hash", _yasmf_hash),
    ConformOperation("bamboo.lipmaa", "n", "n", _lipmaa),
    ConformOperation(
        "bamboo.entry.decode",
        "entry, operation?, verify? (true), hash? (yasmf)",
        "public_key, log_id, seq_num, end_of_log, skiplink?, backlink?, payload_size, payload_hash, "
        "signature, hash",
        _entry_decode,
    ),
    ConformOperation(
        "bamboo.entry.sign",
        "private_key, log_id, seq_num, skiplink?, backlink?, operation, end_of_log?, hash? (yasmf)",
        "entry, hash",
        _entry_sign,
    ),
]
