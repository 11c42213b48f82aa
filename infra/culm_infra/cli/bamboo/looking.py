"""``culm bamboo status``, ``proposals``, ``verify``: the contents of a folder; ``decode``: captures."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli.bamboo.folder import (
    Again,
    LogFolderFlags,
    LogOption,
    OneLog,
    chosen_logs,
    log_name,
    parse_flavour,
    parse_log,
)
from culm_infra.cli.kit.options import words
from culm_infra.cli.kit.output import EXIT_DEGRADED, EXIT_FAILED, Results, emit_json, out, safe
from culm_infra.columns import Columns, Row, of
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.varu64 import MAX_VALUE

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.store.folder_store import FolderStore

_SHOWN_RUNS = 20


def _runs(runs: list[tuple[int, int]]) -> str:
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:_SHOWN_RUNS]]
    return ", ".join(texts) + (f", and {len(runs) - _SHOWN_RUNS} more" if len(runs) > _SHOWN_RUNS else "")


STATUS: Final[Columns] = {
    "log": "log",
    "entries": of("entries", _runs),
    "payloads": of("payloads", _runs),
    "dropped": of("dropped_payloads", _runs),
    "not whole": lambda row: [
        f"{partial['seq_num']}: {partial['bytes']:,} bytes" for partial in row["partial_payloads"]
    ],
    "end": lambda row: row["end_of_log"] or "",
    "forked": lambda row: "" if row["forked_at"] is None else f"from {row['forked_at']:,} on",
}


def status(*, flags: LogFolderFlags, logs: LogOption = None, results: Results) -> None:
    """List the held parts of each log: ranges of entries and of payloads, and incomplete payloads.

    With --json also the two entries that prove that a log is forked; `culm bamboo export` includes them.

    Example: `culm bamboo status --dir mine`
    """
    with flags.open() as store:
        results.rows([_status_row(store, log) for log in chosen_logs(logs, store)], STATUS)


def _status_row(store: FolderStore, log: LogKey) -> dict[str, Any]:
    from culm_models.bamboo_p2p.forks import fork_of

    return {
        "log": log_name(log),
        "entries": _inclusive(store.entries(log)),
        "payloads": _inclusive(store.payloads(log)),
        "dropped_payloads": _inclusive(store.dropped(log)),
        "payload_bytes": store.log_bytes(log),
        "partial_payloads": [
            {"seq_num": seq_num, "bytes": sum(end - start for start, end in parts)}
            for seq_num, parts in sorted(store.partial_payloads(log).items())
        ],
        "end_of_log": store.end_of_log(log),
        "forked_at": fork_of(store, log),
        "fork_proof": store.fork_proof(log),
    }


def _inclusive(numbers: RangeSet) -> list[tuple[int, int]]:
    return [(start, end - 1) for start, end in numbers]


def _what(row: Row) -> str:
    if row["offset"] is not None:
        return f"the payload from byte {row['offset']:,} on"
    return "payloads" if row["payload_only"] else "entries and payloads"


PROPOSALS: Final[Columns] = {
    "log": "log",
    "from": "start",
    "to": lambda row: row["end"] or "newest",
    "what": _what,
}


def proposals(
    *,
    flags: LogFolderFlags,
    logs: LogOption = None,
    again: Again = False,
    results: Results,
) -> None:
    """List what a sync would request from a peer: the proposals that follow from the folder's contents.

    Example: `culm bamboo proposals --dir mine --json`
    """
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_connectors.bamboo_p2p.interest import proposals as made

    with flags.open() as store:
        rows = [
            {
                "log": log_name(log),
                "start": proposal.start,
                "end": proposal.end,
                "offset": proposal.offset,
                "payload_only": proposal.payload_only,
            }
            for log in chosen_logs(logs, store)
            for proposal in made(FollowedLog(log, again=again), store)
        ]
    results.rows(rows, PROPOSALS)


def verify(
    seq_num: Annotated[
        int, typer.Argument(metavar="N", min=1, max=MAX_VALUE, help="The number of the entry.")
    ],
    *,
    flags: LogFolderFlags,
    log: OneLog = "0",
    results: Results,
) -> None:
    """Prove entry N by its certificate pool alone: every signature and link from 1 to N and above.

    Elements of the pool above all held entries may not exist yet and do not count as missing. In a forked log
    nothing is proven from the fork on. Exit status 3: not proven.

    Example: `culm bamboo verify 100000 --log KEY/0`
    """
    from culm_connectors.bamboo_p2p.proof import prove

    with flags.open() as store:
        key = parse_log(log, flags.path)
        proof = prove(store, key, seq_num)
    for number, reason in proof.wrong:
        results.say(f"[bold red]entry {number}[/]: {reason}")
    if proof.forked_at is not None:
        results.say(f"[bold red]the log is forked[/] from entry {proof.forked_at:,} on")
    if proof.missing:
        results.say(f"missing: {', '.join(map(str, proof.missing))}")
    outcome = "proven" if proof.is_proven else "not proven"
    payload = "held" if proof.has_payload else "not held"
    results.one(
        {
            "log": log_name(key),
            "seq_num": seq_num,
            "proven": proof.is_proven,
            "pool": proof.pool,
            "missing": proof.missing,
            "beyond": proof.beyond,
            "wrong": [{"seq_num": number, "reason": reason} for number, reason in proof.wrong],
            "payload": proof.has_payload,
            "forked_at": proof.forked_at,
        },
        f"entry {seq_num} is {outcome} by {len(proof.pool)} entries; its payload is {payload}",
    )
    if not proof.is_proven:
        raise typer.Exit(EXIT_DEGRADED)


_CHANNELS = ("control", "data", "bymux")


def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            allow_dash=True,
            help="Bytes of one direction, from the beginning on; - is standard input.",
        ),
    ],
    *,
    channel: Annotated[
        str,
        typer.Option(help="control, data, or bymux (both, as over TCP).", autocompletion=words(*_CHANNELS)),
    ] = "control",
    setup: Annotated[
        bool, typer.Option("--setup/--no-setup", help="Whether the bytes begin with the setup.")
    ] = True,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="The file holds hex digits.")] = False,
    flavour: Annotated[str, typer.Option(help="yamf or yasmf.")] = "yamf",
    results: Results,
) -> None:
    """Explain captured bytes of a connection: every message with its offset, its size and its fields.

    `culm bamboo sync --trace FOLDER` captures them. Exit status 1: the bytes break a rule.

    Example: `culm bamboo decode trace/data-received --channel data`
    """
    from culm_connectors.bamboo_p2p.captured import Captured, explain

    if channel not in _CHANNELS:
        raise typer.BadParameter(f"{channel!r} is no channel: write {', '.join(_CHANNELS)}")
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    if hexadecimal:
        try:
            data = bytes.fromhex(data.decode("ascii"))
        except ValueError:
            raise typer.BadParameter(f"{file} holds something else than hex digits") from None
    hashes = parse_flavour(flavour)
    assert hashes is not None, "a name was given"
    is_broken = False
    for line in explain(data, Captured(channel), hashes, has_setup=setup):
        is_broken = is_broken or line.message == "Broken"
        if results.json:
            emit_json(asdict(line))
        else:
            fields = "  ".join(f"{name}={_field_text(value)}" for name, value in line.fields.items())
            position = f"{line.channel:7} {line.offset:>8} {line.size:>6}"
            out.print(f"{position}  [bold]{line.message}[/]  {safe(fields, 2_000)}")
    if is_broken:
        raise typer.Exit(EXIT_FAILED)


def _field_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return ",".join(map(_field_text, value))
    return value.name.lower() if isinstance(value, Enum) else str(value)
