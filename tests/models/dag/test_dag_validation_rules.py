"""The validation rules of a deployment (R28): one encoding, and a process that differs says in what."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.multihash import BLAKE3, DEFAULT_HASHES
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.errors import RulesDiffer, RulesMalformed, RulesUnsupported
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.validation_rules import (
    DEFAULT_RULES,
    ValidationRules,
    decode_rules,
    require_same_rules,
    rule_differences,
)
from tests.models.dag.recorded import recorded
from tests.models.dag.signers import KEYS

A, B = did_key(KEYS[0]), did_key(KEYS[1])


def test_the_default_is_the_recorded_one() -> None:
    known = recorded("nodes")["verdict"]
    data = DEFAULT_RULES.encode()
    assert (data.hex(), len(data)) == (known["hex"], 195)
    assert DEFAULT_RULES.digest.hex() == known["sha256"]
    assert hashlib.sha256(data).digest() == DEFAULT_RULES.digest
    assert decode_rules(data) == DEFAULT_RULES


def test_what_means_the_same_has_the_same_bytes() -> None:
    rules = ValidationRules(services=(A, B, A), hashes=(18, 0, 18))
    other = ValidationRules(services=(B, A), hashes=(0, 18))
    assert rules == other
    assert rules.encode() == other.encode()
    assert decode_rules(rules.encode()) == rules


def test_every_field_changes_the_record_and_is_named() -> None:
    changes: dict[str, Any] = {
        "policy": "bearer",
        "legacy": True,
        "services": (A,),
        "leeway": 1,
        "hashes": (*DEFAULT_HASHES, BLAKE3),
    }
    for name, value in changes.items():
        other = replace(DEFAULT_RULES, **{name: value})
        assert rule_differences(DEFAULT_RULES, other) == (name,)
        assert other.digest != DEFAULT_RULES.digest
        with pytest.raises(RulesDiffer, match=name) as caught:
            require_same_rules(DEFAULT_RULES, other)
        assert caught.value.fields == (name,)
    for name in DEFAULT_BOUNDS.__slots__:
        bounds = replace(DEFAULT_BOUNDS, **{name: 1})
        assert rule_differences(replace(DEFAULT_RULES, bounds=bounds), DEFAULT_RULES) == (f"bounds.{name}",)
    require_same_rules(DEFAULT_RULES, DEFAULT_RULES)


def test_settings_that_this_process_cannot_act_on_are_refused() -> None:
    strange = replace(DEFAULT_RULES, hashes=(18, 0x11))
    with pytest.raises(RulesUnsupported, match="hashes"):
        require_same_rules(strange, strange)
    deep = replace(DEFAULT_RULES, bounds=replace(DEFAULT_BOUNDS, nesting=127))
    with pytest.raises(RulesUnsupported, match="nesting"):
        require_same_rules(deep, deep)
    blake3 = replace(DEFAULT_RULES, hashes=(*DEFAULT_HASHES, BLAKE3))
    require_same_rules(blake3, blake3)


def test_chains_follow_the_settings() -> None:
    policy = ValidationRules("bearer", services=(A,), leeway=7).chain_policy
    assert (policy.bound, policy.services, policy.leeway, policy.delegations) == (
        False,
        frozenset({A}),
        7,
        16,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", "open"),
        ("policy", None),
        ("legacy", 0),
        ("services", A),
        ("services", [A[:-1]]),
        ("services", ["did:key:z"]),
        ("services", [B, A] if A < B else [A, B]),
        ("services", [A, A]),
        ("leeway", -1),
        ("leeway", True),
        ("leeway", 1.0),
        ("leeway", 1 << 53),
        ("hashes", [18, 0]),
        ("hashes", [0, 0]),
        ("hashes", ["sha2-256"]),
        ("hashes", [-1]),
        ("bounds", {}),
        ("bounds", None),
    ],
)
def test_a_record_in_any_other_form_is_refused(name: str, value: Any) -> None:
    with pytest.raises(RulesMalformed, match=name):
        decode_rules(encode_dag_cbor({**DEFAULT_RULES.as_map(), name: value}))


def test_fields_are_exactly_those_of_the_record() -> None:
    whole = DEFAULT_RULES.as_map()
    bounds = {**whole["bounds"], "more": 1}
    refused: list[Any] = [None, [], {**whole, "more": 1}, {**whole, "bounds": bounds}]
    refused += [{key: value for key, value in whole.items() if key != name} for name in whole]
    refused += [{**whole, "bounds": {**whole["bounds"], "node": value}} for value in (-1, None, True)]
    for value in refused:
        with pytest.raises(RulesMalformed):
            decode_rules(encode_dag_cbor(value))
    with pytest.raises(RulesMalformed):
        decode_rules(DEFAULT_RULES.encode() + b"\0")
    with pytest.raises(RulesMalformed):
        ValidationRules("open")
