"""Settings of `culm console`: the table `[console]` of the settings file."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from culm_connectors.url import parse_url

MAX_TARGETS: Final = 500
_SHORTEST_TOKEN: Final = 16
_LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `[http://]HOST:PORT`. Raises `ValueError`."""
    return parse_url(text, schemes=("http",), default="http").address


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a host."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES


def _check_target(text: str) -> str:
    if text.startswith("unix:"):
        if not text.removeprefix("unix:"):
            raise ValueError(
                "'unix:' needs the path of a status socket, such as unix:/var/lib/culm/status.sock"
            )
        return text
    if not text.startswith("http://"):
        raise ValueError(
            f"{text[:80]!r} is not a target: write unix:PATH for a status socket or http://HOST:PORT for the "
            "metrics of a process"
        )
    parse_url(text, schemes=("http",), default="http")
    return text


class ConsoleSection(BaseModel):
    """The web console of `culm console`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = Field(
        "127.0.0.1:8780",
        description="Address on which the console is served, as HOST:PORT. Port 0 takes a free one. Other "
        "addresses than those of this machine need TLS or `behind_proxy`.",
    )
    targets: list[Annotated[str, AfterValidator(_check_target)]] = Field(
        default_factory=list,
        max_length=MAX_TARGETS,
        description="Connectors and jobs to show: `unix:PATH` is a status socket, and its path may contain "
        "`*`; `http://HOST:PORT` is the address of metrics. By default all status sockets of this machine's "
        "connector directory and stack are shown.",
        examples=[["http://edge-1:9100", "http://jobs-1:9101"]],
    )
    token: SecretStr | None = Field(
        None,
        description="Token without which nothing is shown, at least 16 characters. By default each start "
        "makes one and prints it with the address.",
        examples=["replace-this-by-32-random-characters"],
    )
    tls_certificate: Path | None = Field(
        None,
        description="PEM file of the console's certificate, followed by its chain. By default the console "
        "is served without TLS.",
        examples=["/etc/culm/console.pem"],
    )
    tls_key: Path | None = Field(
        None,
        description="PEM file of the private key of the certificate.",
        examples=["/etc/culm/console.key"],
    )
    behind_proxy: bool = Field(
        False,
        description="A proxy in front of the console terminates TLS, so that the console may listen on any "
        "address without TLS.",
    )
    max_connections: int = Field(
        128,
        ge=4,
        le=10_000,
        description="Largest number of connections of browsers; further ones are closed.",
    )
    max_table_bytes: int = Field(
        128 * 1024**2,
        ge=1024**2,
        description="Memory for the small topics that the tables follow. A table says so if it is full.",
    )
    scan_timeout_s: float = Field(
        10.0, gt=0, le=300, description="Longest time for which one page reads a topic for details."
    )

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        parse_listen(value)
        return value

    @field_validator("token")
    @classmethod
    def _check_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            text = value.get_secret_value()
            if len(text) < _SHORTEST_TOKEN:
                raise ValueError(f"must have at least {_SHORTEST_TOKEN} characters")
            if not (text.isascii() and text.isprintable()) or " " in text:
                raise ValueError("must consist of printable ASCII characters without spaces")
        return value

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        host, _ = parse_listen(self.listen)
        if not (is_loopback(host) or self.tls_certificate is not None or self.behind_proxy):
            raise ValueError(
                f"{host} can be reached from other machines, and the token would cross the network in the "
                "clear: set tls_certificate and tls_key, or behind_proxy if a proxy terminates TLS"
            )
        return self
