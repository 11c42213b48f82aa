"""The rules of a folder as a file, `policy.toml`. Without a rule everything is allowed and unlimited.

[default]                        # peers without a table of their own
read = ["*"]                     # logs that the peer may read: *, KEY, KEY/ID, */ID
write = []                       # logs that the peer may write

[peer."2f8e…"]                   # by proven key, by tls:FINGERPRINT, or by address:HOST
write = ["*"]                    # fields that are missing here are as in [default]
quota_bytes = 1_000_000_000
quota_entries = 1_000_000

[[peer."2f8e…".follow]]          # logs that this end requests from the peer
logs = ["5d1c…/0"]
take = "sparse"

[retention]
max_bytes = 10_000_000_000

[quotas]
author_bytes = 100_000_000
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from culm_connectors.bamboo_p2p.errors import PolicyError
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Eagerness

_EVERY: Final = "*"
_FORM: Final = re.compile(r"(\*|[0-9a-fA-F]{64})(?:/(\*|\d{1,20}))?")


POLICY_FILE: Final = "policy.toml"
"""Name of the policy file in a folder of logs."""
_MAX_FILE_BYTES: Final = 1024 * 1024
_PRINCIPAL: Final = re.compile(r"(?:tls:)?[0-9a-f]{64}")
_STRICT: Final = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class LogPattern:
    """A set of logs by author and log id; None matches every author or id."""

    public_key: bytes | None = None
    log_id: int | None = None

    def matches(self, log: LogKey) -> bool:
        """Whether the pattern matches a log."""
        return self.public_key in (None, log[0]) and self.log_id in (None, log[1])

    @property
    def only_log(self) -> LogKey | None:
        """The only log that the pattern matches, or None."""
        if self.public_key is None or self.log_id is None:
            return None
        return self.public_key, self.log_id

    def __str__(self) -> str:
        author = _EVERY if self.public_key is None else self.public_key.hex()
        return f"{author}/{_EVERY if self.log_id is None else self.log_id}"


def parse_log_pattern(text: str) -> LogPattern:
    """Parse `*`, `KEY`, `KEY/*`, `KEY/ID` or `*/ID`, the key as 64 hex digits. Raises `ValueError`."""
    parsed = _FORM.fullmatch(text)
    if parsed is None or (parsed[2] not in (None, _EVERY) and int(parsed[2]) >= 2**64):
        raise ValueError(
            f"{text[:80]!r} names no logs: write *, KEY, KEY/ID or */ID, the key as 64 hex digits"
        )
    return LogPattern(
        None if parsed[1] == _EVERY else bytes.fromhex(parsed[1]),
        None if parsed[2] in (None, _EVERY) else int(parsed[2]),
    )


Size = Annotated[int, Field(ge=0, le=MAX_SIZE)]
SeqNum = Annotated[int, Field(ge=1, le=MAX_SIZE)]


def _pattern(value: object) -> LogPattern:
    if isinstance(value, LogPattern):
        return value
    if not isinstance(value, str):
        raise ValueError("logs are named by texts")
    return parse_log_pattern(value)


Patterns = tuple[Annotated[LogPattern, BeforeValidator(_pattern), PlainSerializer(str)], ...]
_ALL_LOGS: Final = (LogPattern(),)


def match(patterns: Iterable[LogPattern], log: LogKey) -> bool:
    """Whether one of the patterns matches a log."""
    return any(pattern.matches(log) for pattern in patterns)


class FollowRule(BaseModel):
    """Logs to request from a peer, with their range. Sizes in bytes; without `to`, new entries, too.

    `take`: everything (`all`), only the shortest path to `to` (`sparse`), only announcements without data
    (`notify`), or payloads of held entries (`payloads`).
    """

    model_config = _STRICT

    logs: Patterns = Field(min_length=1)
    take: Literal["all", "sparse", "notify", "payloads"] = "all"
    start: SeqNum = Field(default=1, alias="from")
    end: SeqNum | None = Field(default=None, alias="to")
    min_size: Size = 0
    max_size: Size = MAX_SIZE
    threshold: Size | None = None
    """Larger payloads are only announced."""
    direction: Direction = Direction.PULL
    mandatory: bool = False
    """A peer that does not have a payload must not continue without it."""

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.end is not None and self.end < self.start:
            raise ValueError(f"the range ends at {self.end}, before its start {self.start}")
        if self.take == "sparse" and self.end is None:
            raise ValueError('"sparse" needs `to`: the path leads from one entry to another')
        if self.threshold is not None and self.take in ("notify", "payloads"):
            raise ValueError(f'"{self.take}" goes with no threshold')
        return self

    def interest(self, log: LogKey) -> FollowedLog:
        """Return the wanted part of one of the rule's logs."""
        eagerness = Eagerness.ALL if self.threshold is None else Eagerness.THRESHOLD
        return FollowedLog(
            log,
            self.start,
            self.end,
            sparse=self.take == "sparse",
            payload_only=self.take == "payloads",
            min_size=self.min_size,
            max_size=self.max_size,
            eagerness=Eagerness.NOTIFY if self.take == "notify" else eagerness,
            threshold=self.threshold,
            direction=self.direction,
            mandatory=self.mandatory,
        )


class PeerRule(BaseModel):
    """Rights of a peer, and the answers to its proposals. Sizes of payloads in bytes.

    `take`: whether it is to send its data (`all`) or only announce it (`notify`). `threshold`: larger
    payloads are only announced.
    """

    model_config = _STRICT

    read: Patterns = _ALL_LOGS
    write: Patterns = _ALL_LOGS
    take: Literal["all", "notify"] = "all"
    threshold: Size | None = None
    min_size: Size = 0
    max_size: Size = MAX_SIZE
    direction: Direction = Direction.BOTH
    mandatory: bool = False
    """The peer must not continue after a payload that it does not have."""
    quota_bytes: Size | None = None
    """Bytes of payloads that the peer may send in `quota_period_s` seconds."""
    quota_entries: Size | None = None
    """Number of entries that the peer may send in that time: entries without payloads take space, too."""
    quota_period_s: float = Field(default=86_400.0, gt=0)
    follow: tuple[FollowRule, ...] = ()

    def may_read(self, log: LogKey) -> bool:
        """Whether the peer may receive the log."""
        return self.direction is not Direction.PULL and match(self.read, log)

    def may_write(self, log: LogKey) -> bool:
        """Whether the peer may send the log."""
        return self.direction is not Direction.PUSH and match(self.write, log)

    @property
    def eagerness(self) -> Eagerness:
        """The eagerness that is requested from the peer."""
        if self.take == "notify":
            return Eagerness.NOTIFY
        return Eagerness.ALL if self.threshold is None else Eagerness.THRESHOLD

    def interests(self, known: Iterable[LogKey]) -> list[FollowedLog]:
        """Return the interests in the named logs and in the `known` logs that the rules match.

        If several rules match a log, the first one counts.
        """
        interests: dict[LogKey, FollowedLog] = {}
        for rule in self.follow:
            named = [only for pattern in rule.logs if (only := pattern.only_log) is not None]
            matched = [log for log in known if match(rule.logs, log)]
            for log in (*named, *matched):
                interests.setdefault(log, rule.interest(log))
        return list(interests.values())


class RetentionRule(BaseModel):
    """Limits for held payloads: maximum age in seconds, and total size in bytes. Entries are never dropped.

    Above the total size the oldest payloads are dropped.
    """

    model_config = _STRICT

    max_age_s: float | None = Field(default=None, gt=0)
    max_bytes: Size | None = None
    logs: Patterns = _ALL_LOGS
    """Logs of the rule; payloads of other logs are kept and not counted."""
    interval_s: float = Field(default=60.0, gt=0)


class QuotaRule(BaseModel):
    """Limit for payloads of one author, in bytes. Once it is reached, no peer may send the author's logs."""

    model_config = _STRICT

    author_bytes: Size | None = None


class FolderPolicy(BaseModel):
    """All rules of a folder. Fields that are missing in a peer's table are as in `default`."""

    model_config = _STRICT

    default: PeerRule = PeerRule()
    peer: dict[str, PeerRule] = {}
    retention: RetentionRule = RetentionRule()
    quotas: QuotaRule = QuotaRule()

    def changed(self, **fields: Any) -> Self:
        """Return the rules with these fields changed for every peer."""
        return self.model_copy(
            update={
                "default": self.default.model_copy(update=fields),
                "peer": {name: rule.model_copy(update=fields) for name, rule in self.peer.items()},
            }
        )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, tree: Any) -> Any:
        """Fill the tables of peers from `default`, and normalise the names of peers."""
        if not isinstance(tree, dict) or not isinstance(tree.get("peer"), dict):
            return tree
        default = tree.get("default")
        rows = {
            parse_principal(name): {**default, **row}
            if isinstance(default, dict) and isinstance(row, dict)
            else row
            for name, row in tree["peer"].items()
        }
        return {**tree, "peer": rows}

    def rule_for(self, principal: str) -> PeerRule:
        """Return the rule of a peer, named by its key in hex, `tls:FINGERPRINT` or `address:HOST`."""
        return self.peer.get(principal, self.default)


def parse_principal(name: object) -> str:
    """Return the normalised name of a peer. Raises `ValueError`."""
    text = str(name).lower()
    if _PRINCIPAL.fullmatch(text):
        return text
    kind, _, host = text.partition(":")
    try:
        if kind == "address":
            return f"{kind}:{ipaddress.ip_address(host)}"
    except ValueError:
        pass
    raise ValueError(
        f"{text[:80]!r} is not a principal: write a key (64 hex digits), tls:FINGERPRINT or address:HOST"
    )


def read_policy(path: Path) -> FolderPolicy:
    """Read the rules of a file. Raises `PolicyError`, which names every invalid field."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise PolicyError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} cannot be read: {error}", hint="it is TOML") from error
    try:
        return FolderPolicy.model_validate(tree)
    except ValidationError as error:
        wrong = "; ".join(
            f"{_place(problem['loc'])}: {_reason(problem['msg'])}" for problem in error.errors()
        )
        raise PolicyError(
            f"{path}: {wrong}", hint="see docs/bamboo.md, or `culm bamboo policy` for what it comes to"
        ) from error


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the file"


def _reason(message: str) -> str:
    return message.removeprefix("Value error, ")
