"""What an operator's Spark options do to ours: lists are added to, everything else wins."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from culm_streaming import session
from culm_streaming.errors import SessionError
from culm_streaming.session import SessionSettings, start_session


class Builder:
    """Takes what a session is built with, and builds none."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    def master(self, name: str) -> Builder:
        return self.config("spark.master", name)

    def appName(self, name: str) -> Builder:
        return self.config("spark.app.name", name)

    def config(self, name: str, text: str) -> Builder:
        self.properties[name] = text
        return self

    def getOrCreate(self) -> None:
        raise RuntimeError("none is built")


def built_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **options: str) -> dict[str, str]:
    jar = tmp_path / "ours.jar"
    jar.touch()
    builder = Builder()
    monkeypatch.setattr(session, "SparkSession", type("Session", (), {"builder": builder}))
    with pytest.raises(SessionError, match="none is built"):
        start_session(
            SessionSettings(
                jars=(jar,), options={name.replace("_", "."): text for name, text in options.items()}
            )
        )
    return builder.properties


@pytest.fixture(autouse=True)
def no_python_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)


def test_jars_and_java_options_are_added_to_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = built_with(
        monkeypatch,
        tmp_path,
        spark_jars="theirs.jar",
        spark_driver_extraJavaOptions="-Da=b",
        spark_ui_enabled="true",
    )
    assert found["spark.jars"] == f"{tmp_path / 'ours.jar'},theirs.jar"
    assert found["spark.driver.extraJavaOptions"].endswith("GC -Da=b")
    assert found["spark.ui.enabled"] == "true"


def test_workers_run_the_python_of_the_option_else_of_the_environment_else_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built_with(monkeypatch, tmp_path)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/culm/bin/python")
    built_with(monkeypatch, tmp_path)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/culm/bin/python"
    built_with(monkeypatch, tmp_path, spark_pyspark_python="./env/bin/python")
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
