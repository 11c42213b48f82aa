"""The published vectors are what the models say today, and sessions go as they do however bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from culm_models.bamboo.hashes import FLAVOURS
from culm_models.bymux import Endpoint
from tests.models.bamboo_p2p import vectors

HELD_BY_RULE = [name for name in vectors.FILES if name != "sessions.json"]
SESSIONS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "sessions.json").read_text())


@pytest.mark.parametrize("name", HELD_BY_RULE)
def test_the_published_bytes_are_those_of_the_models(name: str) -> None:
    assert (vectors.FOLDER / name).read_text() == vectors.text_of(name)


def test_the_published_sessions_are_those_of_two_ends() -> None:
    # What a compressor finds is its own matter, so compressed bytes are no rule.
    today = json.loads(json.dumps(vectors.sessions()))
    assert [one for one in today if "compressed" not in one["name"]] == [
        one for one in SESSIONS if "compressed" not in one["name"]
    ]


@pytest.mark.parametrize("split", [1, 2, 7, 100])
def test_sessions_go_on_the_same_way_however_their_bytes_arrive(split: int) -> None:
    for one, published in zip(vectors.sessions(split), SESSIONS, strict=True):
        assert [end["holds_then"] for end in one["ends"]] == [end["holds_then"] for end in published["ends"]]
        if "compressed" not in one["name"]:
            assert [said["bytes"] for said in one["said"]] == [said["bytes"] for said in published["said"]]


def test_hashes_of_entries_and_payloads_are_as_published() -> None:
    published = json.loads((vectors.FOLDER / "entries.json").read_text())
    for name, flavour in FLAVOURS.items():
        for one in published[name]:
            assert flavour.hash(bytes.fromhex(one["entry"])).hex() == one["hash"]


def test_a_bymux_end_refuses_as_published() -> None:
    published = json.loads((vectors.FOLDER / "bymux.json").read_text())
    for one in published["end_refuses"]:
        end = Endpoint(one["window"])
        end.receive(bytes.fromhex(one["bytes"]))
        assert end.dropped is not None, one
        assert end.dropped.code == one["code"], one
