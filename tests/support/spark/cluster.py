"""A standalone Spark cluster on loopback, from pyspark's own jars, and an environment for its workers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from culm_infra.patience import Patience
from culm_infra.stack import find_java
from culm_infra.stack.ports import HOST, answers, free_ports
from culm_infra.stack.process import ProcessIdentity, spawn_detached
from tests.support.process.waiting import output_of

_ROOT = Path(__file__).parents[3]
_NOT_FOR_WORKERS = (
    "pyspark",
    "pip",
    "mypy",
    "matplotlib",
    "boto",
    "moto",
    "hypothesis",
    "setuptools",
    "ruff",
)
_OURS = ("models/culm_models", "topics/culm_topics", "streaming/culm_streaming")


def pack_environment(archive: Path) -> None:
    """What `python -m venv env`, `pip install culm[streaming]` in it and `tar -czf … *` make, from ours."""
    environment = archive.parent / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    inside = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    # Compressed as there: Spark unpacks what ends in .tar in another way, without symbolic links and modes.
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for entry in environment.iterdir():
            packed.add(entry, entry.name)
        for entry in sorted((Path(sys.prefix) / inside).iterdir()):
            if not entry.name.startswith((*_NOT_FOR_WORKERS, "_editable_impl_culm")):
                packed.add(entry, f"{inside}/{entry.name}")
        for package in _OURS:
            packed.add(_ROOT / package, f"{inside}/{Path(package).name}")


_START_TIMEOUT_S = 60.0
_REGISTERED = "Registering worker "


class SparkClusterError(Exception):
    """The master or a worker did not start."""


@dataclass(slots=True)
class SparkWorker:
    """One worker: an address for executors, and its process."""

    name: str
    process: ProcessIdentity


@dataclass(slots=True)
class SparkCluster:
    """A running cluster. `url` is what `--master` takes."""

    folder: Path
    url: str
    master: ProcessIdentity
    workers: list[SparkWorker]

    def start_worker(self, name: str, *, cores: int, memory_mb: int) -> SparkWorker:
        """Start one more worker; returns at once."""
        options = ["--host", HOST, "--cores", str(cores), "--memory", f"{memory_mb}m"]
        options += ["--work-dir", str(self.folder / name), self.url]
        worker = SparkWorker(
            name, _start(self.folder, name, "org.apache.spark.deploy.worker.Worker", *options)
        )
        self.workers.append(worker)
        return worker

    def kill(self, worker: SparkWorker) -> None:
        """SIGKILL a worker; its executors end when they notice."""
        self.workers.remove(worker)
        worker.process.kill()


@contextlib.contextmanager
def running_spark_cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, memory_mb: int = 1024
) -> Iterator[SparkCluster]:
    """A master with workers that have registered; all is stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    port, web = free_ports(2)
    options = ["--host", HOST, "--port", str(port), "--webui-port", str(web)]
    master = _start(folder, "master", "org.apache.spark.deploy.master.Master", *options)
    cluster = SparkCluster(folder, f"spark://{HOST}:{port}", master, [])
    try:
        _wait(lambda: answers(port), folder / "master.log")
        for number in range(workers):
            cluster.start_worker(f"worker-{number + 1}", cores=cores, memory_mb=memory_mb)
        _wait(lambda: _registered(folder) == workers, folder / "master.log")
        yield cluster
    finally:
        for process in (*(worker.process for worker in cluster.workers), master):
            process.stop(timeout_s=10.0)


def _registered(folder: Path) -> int:
    return (folder / "master.log").read_text(errors="replace").count(_REGISTERED)


def _start(folder: Path, name: str, main_class: str, *options: str) -> ProcessIdentity:
    home = Path(pyspark.__file__).parent
    java = find_java()
    process = spawn_detached(
        [
            str(java.executable),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dspark.worker.cleanup.enabled=true",
            "-cp",
            f"{home / 'jars'}/*",
            main_class,
            *options,
        ],
        environment={
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            # What the launcher scripts find out; a worker asks for it when it starts an executor.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_PUBLIC_DNS": HOST,
            "JAVA_HOME": str(java.home),
        },
        output=folder / f"{name}.log",
    )
    if process is None:
        raise SparkClusterError(f"{name} ended at once: {(folder / f'{name}.log').read_text()[-2000:]}")
    return process


def _wait(condition: Callable[[], bool], log: Path) -> None:
    patience = Patience(_START_TIMEOUT_S, output_of(log))
    while not condition():
        if patience.is_over():
            output = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise SparkClusterError(f"not ready, and nothing printed for {_START_TIMEOUT_S:g} s: {output}")
        time.sleep(0.1)
