"""Command lines of `culm chotki` against a broker, and the job that merges between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.bridge import JobOnKafka


class Shell:
    """Command lines of `culm chotki`, and the job between them."""

    def __init__(self, settings: KafkaSettings, capture: pytest.CaptureFixture[str]) -> None:
        self.settings = settings
        self.job = JobOnKafka(settings)
        self._capture = capture

    def culm(self, *arguments: str) -> int:
        flags = ["--bootstrap", self.settings.bootstrap, "--prefix", self.settings.prefix]
        return run(["chotki", *arguments, *flags])

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        self._capture.readouterr()
        assert self.culm(*arguments, "--json") == 0
        return [json.loads(line) for line in self._capture.readouterr().out.splitlines()]

    def text(self, *arguments: str) -> str:
        self._capture.readouterr()
        assert self.culm(*arguments) == 0
        return self._capture.readouterr().out

    def alone(self, *arguments: str) -> str:
        """Output of a command that is not about the deployment."""
        self._capture.readouterr()
        assert run(["chotki", *arguments]) == 0
        return self._capture.readouterr().out

    def error(self, *arguments: str) -> str:
        self._capture.readouterr()
        assert self.culm(*arguments) != 0
        return self._capture.readouterr().err
