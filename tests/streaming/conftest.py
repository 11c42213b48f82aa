"""Spark for the tests of the streaming jobs, started once a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tests.support.spark.session import spark_session

    session = spark_session()
    yield session
    session.stop()
