"""``culm support-bundle``: one archive that describes this installation, without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, safe

if TYPE_CHECKING:
    from culm_infra.doctor.finding import Finding
    from culm_infra.support.bundle import Part

_SHOWN_PATH = 1_000


def support_bundle(
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The archive, a new file; culm-support-DATE.tar.gz in the working directory by default.",
        ),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Collect settings, versions, findings, status, metrics, logs and topics of this machine in an archive.

    Secrets are redacted. Parts that cannot be had are named in the archive's `missing.txt`.

    Example: `culm support-bundle -o support.tar.gz`
    """
    from culm_infra.cli.kit.new_paths import new_path
    from culm_infra.support.bundle import write
    from culm_infra.support.redaction import redaction

    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    target = (output or Path(f"culm-support-{now}.tar.gz")).absolute()
    with new_path(target) as path:
        summary = write(path, _documents(kafka), redaction(kafka.config, os.environ))
    row = {"file": str(target), "files": summary.files, "missing": summary.missing}
    results.one(row, str(target))
    results.say(f"{len(summary.files)} files, {len(summary.missing)} parts missing (missing.txt says why)")
    results.next(f"tar -tzf {safe(target, _SHOWN_PATH)}")


def _documents(kafka: KafkaFlags) -> Iterator[Part]:
    from culm_infra.cli.about import versions
    from culm_infra.cli.doctor import examined, settings_or_none
    from culm_infra.support import documents
    from culm_infra.support.bundle import Part, missing

    findings: list[Finding] = []

    def examine() -> str:
        findings.extend(examined(kafka))
        return documents.json_lines(map(asdict, findings))

    yield Part("versions.json", lambda: documents.json_lines([versions()]))
    yield Part("settings.json", lambda: documents.settings_text(kafka.config))
    yield Part("doctor.jsonl", examine)
    settings = settings_or_none(kafka)
    if settings is None:
        for name in ("topics.jsonl", "status", "metrics", "logs"):
            yield missing(name, "the settings are wrong: see settings.json and doctor.jsonl")
        return
    reached = [finding for finding in findings if finding.name == "kafka"]
    if reached and reached[0].state == "ok":
        yield Part("topics.jsonl", partial(documents.topics_text, settings, kafka.patience_s))
    else:
        yield missing("topics.jsonl", reached[0].detail if reached else "Kafka was not examined")
    yield from documents.process_documents(settings)
    yield from documents.log_documents(settings)
