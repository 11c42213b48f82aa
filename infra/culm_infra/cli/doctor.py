"""``culm doctor``: checks of an installation, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, err, out, safe
from culm_infra.errors import SettingsError

if TYPE_CHECKING:
    from culm_infra.doctor.finding import Finding
    from culm_infra.settings import CulmSettings
    from culm_topics.kafka.acls import Grantee

_MARKS = {
    "ok": "[green]✓[/]",
    "warning": "[yellow]![/]",
    "failed": "[red]✗[/]",
    "skipped": "[dim]-[/]",
}
_DETAIL_LIMIT = 1_000


def doctor(
    *,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROGRAM=User:NAME", help="Who runs a program (User:culm-PROGRAM by default); repeatable."
        ),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Check this machine, the settings, a QUIC and a TCP door, and the topics, clock and rights of Kafka.

    Exit status 3: a check failed.

    Example: `culm doctor --bootstrap kafka.example:9092`
    """
    from culm_infra.cli.topics import principals_of
    from culm_infra.doctor.finding import is_healthy
    from culm_topics.kafka.acls import GRANTEES

    findings = []
    for finding in examined(kafka, principals_of(principal or [], GRANTEES)):
        findings.append(finding)
        if results.json:
            emit_json(asdict(finding))
            continue
        detail = safe(finding.detail, _DETAIL_LIMIT)
        out.print(f"{_MARKS[finding.state]} [bold]{safe(finding.name)}[/]  {detail}")
        if finding.advice and finding.state != "ok":
            out.print(f"    → {escape(finding.advice)}")
    if not is_healthy(findings):
        raise typer.Exit(EXIT_DEGRADED)


def examined(kafka: KafkaFlags, principals: dict[Grantee, str] | None = None) -> Iterator[Finding]:
    """Run all checks; standard error says what a check waits for if it takes longer than a second.

    Raises `SettingsError` if a flag is wrong; other wrong settings are findings.
    """
    from culm_infra.cli.kit.reaching import announced
    from culm_infra.doctor.examination import checks

    for check in checks(
        settings_or_none(kafka), kafka.config, timeout_s=kafka.patience_s, principals=principals
    ):
        with (
            err.status(f"checking {escape(check.name)}"),
            announced(f"{check.name}: waiting for {check.waits_for}"),
        ):
            findings = list(check.run())
        yield from findings


def settings_or_none(kafka: KafkaFlags) -> CulmSettings | None:
    """Return the settings in force; None if the file or the environment is wrong.

    Raises `SettingsError` if a flag is wrong.
    """
    from culm_infra.settings import load

    try:
        return kafka.load()
    except SettingsError:
        try:
            load(config=kafka.config)
        except SettingsError:
            return None
        raise
