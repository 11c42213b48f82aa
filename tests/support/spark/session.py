"""The one Spark session of a test run, on the real connector's jars."""

from __future__ import annotations

from pyspark.sql import SparkSession

from culm_infra.stack import find_java, jars
from culm_infra.stack.class_archive import spark_options
from culm_streaming.session import SparkSessionSettings, start_session


def session_settings() -> SparkSessionSettings:
    """Two cores and two state partitions: tests are small."""
    java = find_java()
    return SparkSessionSettings(
        jars=jars.ensure("spark"),
        master="local[2]",
        app_name="culm-tests",
        java_home=java.home,
        java_options=spark_options(java),
        driver_memory_mb=1024,
        state_partitions=2,
        quick_start=True,
    )


def spark_session() -> SparkSession:
    """The session, started by the first test that asks for it."""
    return start_session(session_settings())
