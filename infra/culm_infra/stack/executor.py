"""Start of a Spark executor in a pod: ``python3 -m culm_infra.stack.executor executor``.

Spark's driver on Kubernetes starts pods with variables `SPARK_…` and the argument `executor`, and expects a
script of Spark's own images there. Culm's image has Spark as a Python package, and this module is the script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from culm_infra.errors import InfraError

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION: Final = "SPARK_JAVA_OPT_"
_PLACES: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")


def executor_command(java: Path, jars: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs an executor; `jars` is the folder of Spark's jars.

    Raises `InfraError` with the variables that are not set.
    """
    missing = [name for name in (*_ARGUMENTS.values(), _MEMORY) if name not in environment]
    if missing:
        raise InfraError(
            f"{', '.join(missing)} not set", hint="Spark's driver on Kubernetes starts this program"
        )
    places = [environment[name] for name in _PLACES if environment.get(name)]
    class_path = [*places, f"{jars}/*", *filter(None, [environment.get("SPARK_EXTRA_CLASSPATH")])]
    memory = environment[_MEMORY]
    arguments = [word for option, name in _ARGUMENTS.items() for word in (option, environment[name])]
    return [
        str(java),
        *_java_options(environment),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        os.pathsep.join(class_path),
        _BACKEND,
        *arguments,
    ]


def _java_options(environment: Mapping[str, str]) -> Iterator[str]:
    """Return Java's options in their order; the driver numbers them from 0."""
    numbers = [
        int(name.removeprefix(_JAVA_OPTION))
        for name in environment
        if name.startswith(_JAVA_OPTION) and name.removeprefix(_JAVA_OPTION).isdecimal()
    ]
    for number in sorted(numbers):
        yield environment[f"{_JAVA_OPTION}{number}"]


def main() -> None:
    """Become the executor."""
    import pyspark

    from culm_infra.stack.java import find_java

    if sys.argv[1:] != ["executor"]:
        raise SystemExit("the only argument is `executor`: Spark's driver on Kubernetes starts this program")
    try:
        java = find_java()
        environment = {**os.environ, "JAVA_HOME": str(java.home)}
        command = executor_command(java.executable, Path(pyspark.__path__[0]) / "jars", environment)
    except InfraError as error:
        raise SystemExit(f"{error}: {error.hint}") from None
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()
