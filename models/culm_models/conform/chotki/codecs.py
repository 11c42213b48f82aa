"""Operations on Chotki's bytes: integers, ids, records, packets, values and classes (docs/conform.md)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.chotki import zip as zipped
from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id, block_of, object_key, vector_key
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import (
    check_value,
    delta,
    merge,
    parse_class,
    parse_text,
    parse_vector,
    print_text,
    stamp,
    xdiff,
)
from culm_models.chotki.tlv import LONG_MAX, header, probe
from culm_models.conform.arguments import U64_MAX, ArgumentError, Arguments, as_octets
from culm_models.conform.operation import ConformOperation, Machines


def compat_of(arguments: Arguments) -> Compat:
    """Return the argument ``compat``; Culm's own behaviour if it is left out."""
    return arguments.word("compat", {compat.value: compat for compat in Compat}, default=Compat.DEFAULT.value)


def letter_of(arguments: Arguments, name: str = "type") -> str:
    """Return an argument that is a letter, A to Z."""
    letter = arguments.text(name)
    if len(letter) != 1 or not letter.isascii() or not letter.isupper():
        raise ArgumentError(f"{name} is not a letter A to Z")
    return letter


_I64: Final = 1 << 63
_FLOAT_DIGITS: Final = 16
_TEXT_TYPES: Final = "FIRSTNZV"


def _zip_encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    kind = arguments.text("kind")
    if kind == "uint64":
        packed = zipped.pack_uint(arguments.integer("n"))
    elif kind == "int64":
        packed = zipped.pack_int(arguments.integer("n", min_value=-_I64, max_value=_I64 - 1))
    elif kind == "float64":
        packed = zipped.pack_float_bits(int.from_bytes(arguments.octets("bits", size=8), "big"))
    elif kind == "pair":
        packed = zipped.pack_pair(arguments.integer("big"), arguments.integer("lil"))
    else:
        raise _unknown_kind(kind)
    return {"bytes": packed.hex()}


def _zip_decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    kind, data = arguments.text("kind"), arguments.octets("bytes")
    if kind == "uint64":
        return {"n": zipped.unpack_uint(data)}
    if kind == "int64":
        return {"n": zipped.unpack_int(data)}
    if kind == "float64":
        return {"bits": f"{zipped.unpack_float_bits(data):0{_FLOAT_DIGITS}x}"}
    if kind == "pair":
        big, lil = zipped.unpack_pair(data, compat=compat_of(arguments))
        return {"big": big, "lil": lil}
    raise _unknown_kind(kind)


def _unknown_kind(kind: str) -> ArgumentError:
    return ArgumentError(f"kind {kind[:20]!r} is not one of uint64, int64, float64, pair")


def _id(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    id = Id.from_text(arguments.text("text"))
    return {
        "src": str(id.src),
        "pro": str(id.pro),
        "printed": str(id),
        "zip": id.zip().hex(),
        "object_key": object_key(id, "S").hex(),
        "vector_key": vector_key(id).hex(),
        "block_zip": block_of(id).zip().hex(),
    }


def _tlv_header(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    letter = arguments.text("letter")
    if len(letter) != 1 or not letter.isascii() or not letter.isalpha():
        raise ArgumentError("letter is not one letter of the alphabet")
    return {"header": header(letter, arguments.integer("body_length", max_value=LONG_MAX)).hex()}


def _tlv_probe(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    code, header_length, body_length = probe(arguments.octets("bytes"))
    return {"letter": code, "header_length": header_length, "body_length": body_length}


def _packet_parse(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    packet = parse(arguments.octets("packet"), compat=compat_of(arguments))
    return {
        "letter": packet.letter,
        "id": str(packet.id),
        "ref": str(packet.ref),
        "body": packet.body.hex(),
    }


def _rdx_parse(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    tlv = parse_text(letter_of(arguments), arguments.text("text"), compat=compat_of(arguments))
    return {"tlv": tlv.hex()}


def _rdx_print(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"text": print_text(letter_of(arguments), arguments.octets("tlv"))}


def _rdx_merge(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    letter = letter_of(arguments)
    inputs = [as_octets(tlv, "an item of inputs") for tlv in arguments.items("inputs")]
    answer: dict[str, Any] = {"merged": merge(letter, inputs).hex()}
    if letter in "OY":
        # An object has one class: different inputs are a conflict, not a merge.
        answer["differs"] = len(set(inputs)) > 1
    return answer


def _rdx_xdiff(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    wanted = arguments.octets("wanted")
    check_value("V", wanted, compat=compat_of(arguments))
    return {"diff": xdiff(letter_of(arguments), arguments.octets("tlv"), parse_vector(wanted)).hex()}


def _rdx_delta(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    letter, compat = letter_of(arguments), compat_of(arguments)
    if arguments.has("new_tlv"):
        new = arguments.octets("new_tlv")
    elif letter in _TEXT_TYPES:
        new = parse_text(letter, arguments.text("new"), compat=compat)
    else:
        raise ArgumentError(f"a new value of type {letter} is given as new_tlv")
    src = arguments.integer("src", default=0)
    return {"delta": delta(letter, arguments.octets("tlv"), new, src=src, compat=compat).hex()}


def _rdx_stamp(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    src = arguments.integer("src", max_value=U64_MAX)
    return {"tlv": stamp(letter_of(arguments), arguments.octets("tlv"), src).hex()}


def _class_parse(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {
        "fields": [
            {"index": field.index, "name": field.name, "offset": field.offset, "type": field.letter}
            for field in parse_class(arguments.octets("tlv"), compat=compat_of(arguments))
        ]
    }


OPERATIONS = [
    ConformOperation(
        "chotki.zip.encode",
        "kind (uint64, int64, float64 or pair), n or bits (16 hex digits) or big and lil",
        "bytes",
        _zip_encode,
    ),
    ConformOperation(
        "chotki.zip.decode",
        "kind (uint64, int64, float64 or pair), bytes, compat? (default or go; default)",
        "n or bits or big and lil",
        _zip_decode,
    ),
    ConformOperation(
        "chotki.id", "text", "src, pro, printed, zip, object_key (of type S), vector_key, block_zip", _id
    ),
    ConformOperation(
        "chotki.tlv.header", "letter (lower case: tiny where it fits), body_length", "header", _tlv_header
    ),
    ConformOperation(
        "chotki.tlv.probe", "bytes", "letter (its code), header_length, body_length", _tlv_probe
    ),
    ConformOperation("chotki.packet.parse", "packet, compat?", "letter, id, ref, body", _packet_parse),
    ConformOperation("chotki.rdx.parse", "type, text, compat?", "tlv", _rdx_parse),
    ConformOperation("chotki.rdx.print", "type, tlv", "text", _rdx_print),
    ConformOperation("chotki.rdx.merge", "type, inputs", "merged, differs? (of O and Y)", _rdx_merge),
    ConformOperation("chotki.rdx.xdiff", "type, tlv, wanted (a vector)", "diff", _rdx_xdiff),
    ConformOperation(
        "chotki.rdx.delta", "type, tlv, new (text) or new_tlv, src? (0), compat?", "delta", _rdx_delta
    ),
    ConformOperation("chotki.rdx.stamp", "type, tlv, src", "tlv", _rdx_stamp),
    ConformOperation(
        "chotki.class.parse", "tlv, compat?", "fields as [{index, name, offset, type}]", _class_parse
    ),
]
