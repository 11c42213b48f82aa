"""Messages of both channels as JSON objects, and back: `type` and fields, absent ones left out."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.hashes import FLAVOURS, YAMF, HashFlavour
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.wire.messages import (
    MAX_SIZE,
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    Grant,
    Metadata,
    Notify,
    Propose,
    Setup,
    Skip,
    SkipBytes,
    Switch,
)
from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_octets
from culm_models.conform.forms import (
    FLAG,
    LEFT_OUT,
    Choice,
    Form,
    MemberForm,
    RecordForm,
    octets,
    optional,
    sequence,
    words,
)
from culm_models.keys import PUBLIC_KEY_SIZE, SIGNATURE_SIZE

MODE: Final = words({"safe": False, "greedy": True})
SETUP: Final = RecordForm(
    Setup,
    members={
        "sends_greedily": MemberForm(MODE, "send", default=False),
        "accepts_greedy": MemberForm(MODE, "receive", default=False),
    },
)
CODE: Final = Form(
    lambda value, name: CancelCode(
        as_integer(value, name, min_value=CancelCode.REFUSED, max_value=CancelCode.FORKED)
    ),
    int,
)
FORMS: Final = {bool: Form(FLAG.read, lambda value: value or LEFT_OUT), CancelCode: CODE}
NAMES: Final = {"min_size": MemberForm(name="min"), "max_size": MemberForm(name="max")}


def flavour_of(arguments: Arguments, default: HashFlavour = YAMF) -> HashFlavour:
    """Return the hash flavour in the argument `hash`."""
    return arguments.word("hash", FLAVOURS, default=default.name)


def _hash(flavour: HashFlavour) -> Form:
    def read(value: Any, name: str) -> bytes:
        if not flavour.has_form(data := as_octets(value, name)):
            raise ArgumentError(f"{name} is no {flavour.name} hash of {flavour.size} bytes")
        return data

    return Form(read, bytes.hex)


def _entries(flavour: HashFlavour) -> Form:
    """Return the form of evidence. Raises `Malformed` if an item is not an entry."""

    def read(value: Any, name: str) -> bytes:
        data = as_octets(value, name)
        try:
            decode_entry(data, flavour)
        except BambooError as error:
            raise Malformed(f"evidence that is no {flavour.name} entry: {error}") from None
        return data

    entries = sequence(Form(read, bytes.hex))
    return Form(entries.read, lambda value: entries.show(value) or LEFT_OUT)


def _range(flavour: HashFlavour) -> dict[str, MemberForm]:
    """Return the members that proposals and the ranges of callers have in common."""
    return {
        "public_key": MemberForm(octets(PUBLIC_KEY_SIZE)),
        "min_size": MemberForm(name="min", default=0),
        "max_size": MemberForm(name="max", default=MAX_SIZE),
        "expected_hash": MemberForm(optional(_hash(flavour)), default=None),
    }


@cache
def requested_ranges(flavour: HashFlavour) -> RecordForm[RequestedRange]:
    """Return the form of the range of a log that a caller requests."""
    return RecordForm(RequestedRange, FORMS, _range(flavour))


@cache
def control_messages(flavour: HashFlavour) -> Choice:
    """Return the forms of the control messages."""
    return Choice(
        FORMS,
        NAMES,
        grant=Grant,
        propose=RecordForm(Propose, FORMS, _range(flavour)),
        adjust=Adjust,
        cancel=RecordForm(Cancel, FORMS, {"entries": MemberForm(_entries(flavour))}),
    )


@cache
def data_messages(flavour: HashFlavour) -> Choice:
    """Return the forms of the data messages without payload bytes; `codecs` handles the others."""
    return Choice(
        FORMS,
        {
            "end_of_log": MemberForm(default=False),
            "backlink": MemberForm(optional(_hash(flavour)), default=None),
            "payload_hash": MemberForm(_hash(flavour)),
            "signature": MemberForm(octets(SIGNATURE_SIZE)),
        },
        switch=Switch,
        cancelled=Cancelled,
        notify=Notify,
        skip=Skip,
        skip_bytes=SkipBytes,
        apology=Apology,
        metadata=Metadata,
    )
