"""An executor of Spark starts as its driver on Kubernetes asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from culm_infra.errors import InfraError
from culm_infra.stack.executor import executor_command

GIVEN = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "culm-exec-3",
}


def test_the_variables_of_the_driver_become_arguments() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in (0, 2, 10, 1)}
    places = {"SPARK_CONF_DIR": "/conf", "SPARK_EXTRA_CLASSPATH": "x"}
    command = executor_command(Path("/java"), Path("/jars"), GIVEN | options | places)
    assert command[1:5] == [f"-Dnumber={number}" for number in (0, 1, 2, 10)]
    assert command[5:7] == ["-Xms2048m", "-Xmx2048m"]
    assert command[command.index("-cp") + 1] == "/conf:/jars/*:x"
    pairs = dict(zip(command[-14::2], command[-13::2], strict=True))
    assert pairs["--driver-url"] == GIVEN["SPARK_DRIVER_URL"]
    assert pairs["--hostname"] == "10.0.0.7"
    assert pairs["--podName"] == "culm-exec-3"


def test_a_variable_that_the_driver_did_not_set_is_named() -> None:
    without = {name: value for name, value in GIVEN.items() if name != "SPARK_DRIVER_URL"}
    with pytest.raises(InfraError, match="SPARK_DRIVER_URL not set"):
        executor_command(Path("/java"), Path("/jars"), without)


def test_the_program_explains_itself_to_anyone_but_spark() -> None:
    command = [sys.executable, "-m", "culm_infra.stack.executor", "driver"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Spark's driver on Kubernetes starts this program" in done.stderr
