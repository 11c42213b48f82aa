"""The validation rules of a deployment (R28): one record that decides validation in all its processes.

Two processes with different settings would derive different orders from the same blocks. The deployment
therefore has a single record. A process whose own settings differ from it, or that does not support it, does
not start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from culm_models.dag.blocks.dag_cbor import NESTING_MAX, decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, KNOWN_HASHES
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import DagError, RulesDiffer, RulesMalformed, RulesUnsupported
from culm_models.dag.ucan.chain import ChainPolicy
from culm_models.dag.ucan.did_key import is_did_key

BOUND: Final = "bound"
BEARER: Final = "bearer"
POLICIES: Final = (BOUND, BEARER)
LEEWAY_MAX: Final = (1 << 53) - 1

_BOUND_MAX: Final = (1 << 53) - 1
_BOUND_NAMES: Final = tuple(field.name for field in fields(DagBounds))
_FIELDS: Final = ("policy", "legacy", "services", "leeway", "hashes", "bounds")


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """The settings that influence validation. All other settings may differ between processes.

    `services` and `hashes` are sets. They are kept ascending and without duplicates, so that equal settings
    have equal bytes.
    """

    policy: str = BOUND
    legacy: bool = False
    services: tuple[bytes, ...] = ()
    """The did:keys (34 bytes each) that may be the audience of a leaf (R22)."""
    leeway: int = 0
    """Tolerance in seconds when times of validity are checked."""
    hashes: tuple[int, ...] = tuple(sorted(DEFAULT_HASHES))
    bounds: DagBounds = DEFAULT_BOUNDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "services", tuple(sorted(set(self.services))))
        object.__setattr__(self, "hashes", tuple(sorted(set(self.hashes))))
        _check(self.as_map())

    def as_map(self) -> dict[str, Any]:
        """Return the record as a DAG-CBOR value."""
        return {
            "policy": self.policy,
            "legacy": self.legacy,
            "services": list(self.services),
            "leeway": self.leeway,
            "hashes": list(self.hashes),
            "bounds": asdict(self.bounds),
        }

    def encode(self) -> bytes:
        """Encode the record canonically, as on the topic `dag.settings`."""
        return encode_dag_cbor(self.as_map())

    @property
    def digest(self) -> bytes:
        """The sha2-256 of the record, as sent in HELLO."""
        return hashlib.sha256(self.encode()).digest()

    @property
    def chain_policy(self) -> ChainPolicy:
        """The part of the settings that applies to chains of UCANs."""
        return ChainPolicy(
            bound=self.policy == BOUND,
            services=frozenset(self.services),
            leeway=self.leeway,
            delegations=self.bounds.delegations,
        )

    def require_supported(self) -> None:
        """Check that this process supports every field. Raises `RulesUnsupported`."""
        unsupported = [code for code in self.hashes if code not in KNOWN_HASHES]
        if unsupported:
            raise RulesUnsupported(f"hashes: this process does not support the function 0x{unsupported[0]:x}")
        if self.bounds.nesting != NESTING_MAX:
            raise RulesUnsupported(f"bounds.nesting: this process decodes {NESTING_MAX} levels")


def decode_rules(data: bytes) -> ValidationRules:
    """Decode a record.

    Raises `RulesMalformed` unless it is canonical and has exactly the required fields.
    """
    try:
        value = decode_dag_cbor(data)
    except DagError as error:
        raise RulesMalformed(f"validation rules that are not canonical: {error}") from None
    if not isinstance(value, dict) or value.keys() != set(_FIELDS):
        raise RulesMalformed(f"validation rules are a map of exactly {', '.join(_FIELDS)}")
    _check(value)
    for name in ("services", "hashes"):
        if value[name] != sorted(set(value[name])):
            raise RulesMalformed(f"{name}: not strictly ascending")
    return ValidationRules(
        value["policy"],
        value["legacy"],
        tuple(value["services"]),
        value["leeway"],
        tuple(value["hashes"]),
        DagBounds(**value["bounds"]),
    )


def rule_differences(own: ValidationRules, record: ValidationRules) -> tuple[str, ...]:
    """Return the names of the fields that differ, limits by a name such as `bounds.node`."""
    mine, theirs = _flat(own.as_map()), _flat(record.as_map())
    return tuple(name for name, value in mine.items() if theirs[name] != value)


def require_same_rules(own: ValidationRules, record: ValidationRules) -> None:
    """Check that a process with its `own` settings can work with the deployment's `record`.

    Raises `RulesDiffer` if they differ, and `RulesUnsupported` if the process does not support them.
    """
    different = rule_differences(own, record)
    if different:
        mine, theirs = _flat(own.as_map()), _flat(record.as_map())
        differences = "; ".join(
            f"{name} is {_as_text(mine[name])} here and {_as_text(theirs[name])} there" for name in different
        )
        raise RulesDiffer(f"the validation rules differ: {differences}", different)
    record.require_supported()


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {f"bounds.{name}": bound for name, bound in value["bounds"].items()}
    return {name: value[name] for name in _FIELDS if name != "bounds"} | bounds


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return (
            "["
            + ", ".join(element.hex() if isinstance(element, bytes) else str(element) for element in value)
            + "]"
        )
    return str(value)


def _check(value: Mapping[str, Any]) -> None:
    _require(value["policy"] in POLICIES, "policy: neither bound nor bearer")
    _require(isinstance(value["legacy"], bool), "legacy: neither true nor false")
    services = value["services"]
    _require(
        _is_list_of(services, bytes) and all(map(is_did_key, services)), "services: not Ed25519 did:keys"
    )
    _require(_is_integer(value["leeway"], LEEWAY_MAX), "leeway: not seconds")
    hashes = value["hashes"]
    _require(
        isinstance(hashes, list) and all(_is_integer(code, _BOUND_MAX) for code in hashes),
        "hashes: not codes",
    )
    bounds = value["bounds"]
    _require(
        isinstance(bounds, dict) and bounds.keys() == set(_BOUND_NAMES),
        f"bounds: not exactly {', '.join(_BOUND_NAMES)}",
    )
    for name in _BOUND_NAMES:
        _require(_is_integer(bounds[name], _BOUND_MAX), f"bounds.{name}: not a number")


def _is_integer(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value <= limit


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(element, kind) for element in value)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RulesMalformed(message)


DEFAULT_RULES: Final = ValidationRules()
