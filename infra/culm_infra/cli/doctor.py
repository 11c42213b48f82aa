"""``culm doctor``: checks of this machine, each with a remedy."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.markup import escape

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, err, out, safe

_MARKS = {
    "ok": "[green]✓[/]",
    "warning": "[yellow]![/]",
    "failed": "[red]✗[/]",
    "skipped": "[dim]-[/]",
}


def doctor(
    *,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Check Python, Java, the jars, ports, disk and a round trip through Kafka. Exit status 3: a check
    failed.

    Example: `culm doctor --bootstrap kafka.example:9092`
    """
    from culm_infra.doctor import Finding, examine, is_healthy

    settings = kafka.load()
    findings: list[Finding] = []
    with err.status("looking"):
        for finding in examine(settings):
            findings.append(finding)
            if results.json:
                emit_json(asdict(finding))
            else:
                out.print(f"{_MARKS[finding.state]} [bold]{safe(finding.name)}[/]  {safe(finding.detail)}")
                if finding.advice and finding.state != "ok":
                    out.print(f"    → {escape(finding.advice)}")
    if not is_healthy(findings):
        raise typer.Exit(EXIT_DEGRADED)
