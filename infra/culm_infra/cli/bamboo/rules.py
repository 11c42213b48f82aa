"""``culm bamboo policy``, ``pause`` and ``resume``: permanent and temporary rules of exchange."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.bamboo.folder import (
    LogFolderFlags,
    LogOption,
    PolicyFile,
    folder_of,
    log_name,
    open_folder,
    parse_log,
    read_rules,
)
from culm_infra.cli.kit.options import words
from culm_infra.cli.kit.output import EXIT_FAILED, Results, emit_json, out, say, table
from culm_infra.columns import Columns, of

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.policy.document import PeerRule


def policy(*, flags: LogFolderFlags, file: PolicyFile = None, results: Results) -> None:
    """Show the effective rules of a folder for each peer. Exit status 1: the file is malformed.

    policy.toml has a table `default`, tables `peer.PRINCIPAL` (a key in hex, tls:FINGERPRINT or
    address:HOST), `retention` and `quotas`; docs/bamboo.md describes all fields.

    Example: `culm bamboo policy --dir mine`; `culm bamboo policy --policy draft.toml --json`
    """
    rules = read_rules(flags.path, file)
    if rules is None:
        say("there are no rules: everybody may read and write everything, and nothing is dropped")
        return
    rows = [("everybody else", rules.default), *sorted(rules.peer.items())]
    if results.json:
        for name, rule in rows:
            emit_json({"peer": name, **rule.model_dump(mode="json")})
        emit_json({"retention": rules.retention.model_dump(mode="json"), "quotas": rules.quotas.model_dump()})
        return
    columns: Columns = {
        "peer": "peer",
        "may read": of("rule", lambda rule: rule.read if rule.direction != "pull" else ""),
        "may write": of("rule", lambda rule: rule.write if rule.direction != "push" else ""),
        "takes": of("rule", lambda rule: rule.take),
        "follows": of("rule", _follows),
        "quota": of("rule", _quota),
    }
    table(None, columns, [{"peer": name, "rule": rule} for name, rule in rows])
    retention = rules.retention
    if retention.max_age_s is not None:
        out.print(f"payloads are dropped after {retention.max_age_s:,.0f} s")
    if retention.max_bytes is not None:
        out.print(f"of payloads {retention.max_bytes:,} bytes are kept")
    if rules.quotas.author_bytes is not None:
        out.print(f"of each author {rules.quotas.author_bytes:,} bytes of payloads are taken")


def _quota(rule: PeerRule) -> str:
    quotas = ((rule.quota_bytes, "bytes"), (rule.quota_entries, "entries"))
    text = " and ".join(f"{limit:,} {what}" for limit, what in quotas if limit is not None)
    return text and f"{text} in {rule.quota_period_s:,.0f} s"


def _follows(rule: PeerRule) -> str:
    return "; ".join(f"{', '.join(map(str, follow.logs))} ({follow.take})" for follow in rule.follow)


def complete_paused(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the paused logs and peers of the folder that the command line names."""
    from culm_connectors.errors import ConnectorError

    try:
        with open_folder(folder_of(ctx)) as store:
            return words(*sorted(store.paused))(incomplete)
    except ConnectorError:
        return []


Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peer",
        metavar="PEER_ID",
        help="A peer: its key in hex, tls:FINGERPRINT or address:HOST. Repeatable.",
        autocompletion=complete_paused,
    ),
]


def pause(
    *,
    flags: LogFolderFlags,
    logs: LogOption = None,
    peers: Peers = None,
    results: Results,
) -> None:
    """Stop exchanging a log, or exchanging with a peer, until `resume`; without either, list what is paused.

    A `serve` of the folder applies this at once: requests end, and peers that ask receive "try again later".

    Example: `culm bamboo pause --log KEY/0`; `culm bamboo pause --peer address:192.0.2.7`
    """
    _set(flags.path, logs, peers, is_paused=True, results=results)


def resume(
    *,
    flags: LogFolderFlags,
    logs: LogOption = None,
    peers: Peers = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is paused.")] = False,
    results: Results,
) -> None:
    """Exchange a paused log, or with a paused peer, again: the exchange resumes where it stopped.

    Example: `culm bamboo resume --log KEY/0`; `culm bamboo resume --all`
    """
    if everything and (logs or peers):
        raise typer.BadParameter("--all is every log and every peer that is paused")
    if not (logs or peers or everything):
        raise typer.BadParameter("name what to resume: --log, --peer or --all")
    _set(flags.path, logs, peers, is_paused=False, everything=everything, results=results)


def _set(
    folder: Path,
    logs: list[str] | None,
    peers: list[str] | None,
    *,
    is_paused: bool,
    everything: bool = False,
    results: Results,
) -> None:
    from culm_connectors.bamboo_p2p.policy.document import parse_principal

    with open_folder(folder) as store:
        try:
            named = [parse_principal(name) for name in peers or []]
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        named += [log_name(parse_log(name, folder)) for name in logs or []]
        with store.exclusively():
            unknown = set() if is_paused else set(named) - store.paused
            for name in store.paused if everything else named:
                store.pause(name, is_paused=is_paused)
        paused = sorted(store.paused)
    if results.json:
        for name in paused:
            emit_json({"paused": name})
    else:
        out.print("paused: " + (", ".join(paused) or "nothing"), markup=False)
    if unknown:
        say(f"not paused: {', '.join(sorted(unknown))}")
        raise typer.Exit(EXIT_FAILED)
