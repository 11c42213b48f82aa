"""The Spark session that runs the jobs, with every Spark setting that affects correctness or speed."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from culm_streaming.errors import SparkSessionError
from culm_streaming.supervision.failures import cause_of

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOCAL_ADDRESS = "127.0.0.1"
_PYTHON = "spark.pyspark.python"
_WORKER_PATH = "spark.executorEnv.PYTHONPATH"
_LISTS = {"spark.jars": ",", "spark.driver.extraJavaOptions": " ", _WORKER_PATH: os.pathsep}
"""Culm's properties that are lists, with the separator of their items."""
_LONG_RUN = ("-XX:+UseParallelGC",)
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class SparkSessionSettings:
    """Settings for starting Spark.

    `jars` are the Kafka connector's and those of file systems, as paths; `java_home` overrides JAVA_HOME.
    `options` are any Spark properties and override Culm's; lists (`spark.jars`, Java's options) are appended
    to Culm's. Workers run the Python of `spark.pyspark.python`, else of PYSPARK_PYTHON, else the current one.
    """

    jars: Sequence[Path]
    master: str = "local[*]"
    app_name: str = "culm"
    java_home: Path | None = None
    driver_memory_mb: int = 1536
    quick_start: bool = False
    """Whether the JVM compiles quickly rather than well: suitable for runs of minutes, not of a day."""
    java_options: Sequence[str] = ()
    """Further options of a local master's JVM."""
    state_partitions: int = 4
    """Shuffle and state partitions; fixed for the life of a checkpoint."""
    log_file: Path | None = None
    """File for Spark's own output, which goes to this process's standard error by default."""
    options: Mapping[str, str] = field(default_factory=dict)


def start_session(settings: SparkSessionSettings) -> SparkSession:
    """Start Spark, or return the session that runs already. Raises `SparkSessionError` if it cannot start."""
    missing = [str(jar) for jar in settings.jars if not jar.is_file()]
    if missing:
        raise SparkSessionError(f"jars of Spark's Kafka connector are missing: {', '.join(missing)}")
    # The JVM starts the workers: without this, they use the first python3 of the PATH. Spark itself reads its
    # property only if spark-submit starts the program.
    python = settings.options.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.java_home is not None:
        os.environ["JAVA_HOME"] = str(settings.java_home)
    builder = SparkSession.builder.master(settings.master).appName(settings.app_name)
    for name, text in _properties(settings).items():
        builder = builder.config(name, text)
    try:
        with _output_to(settings.log_file):
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        where = "" if settings.log_file is None else f" (see {settings.log_file})"
        raise SparkSessionError(f"Spark does not start: {cause_of(error)}{where}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _properties(settings: SparkSessionSettings) -> dict[str, str]:
    properties = {
        "spark.jars": ",".join(str(jar) for jar in settings.jars),
        "spark.driver.memory": f"{settings.driver_memory_mb}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.state_partitions),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        # By default, an idle query asks Kafka for new records every 10 ms: with the broker, two thirds of a
        # core.
        "spark.sql.streaming.pollingDelay": "100ms",
        # Hashes, signatures and filters hardly compress: the attempt took a tenth of a job's time.
        "spark.shuffle.compress": "false",
        # Records have up to 4 MiB: a batch for Python is limited in bytes as well.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "culm_streaming.daemon",
        # For its sitecustomize: a worker that recompiles PySpark is too late on a busy machine.
        _WORKER_PATH: str(Path(__file__).parent / "worker_path"),
    }
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOCAL_ADDRESS)
        properties |= {
            "spark.driver.host": _LOCAL_ADDRESS,
            "spark.driver.bindAddress": _LOCAL_ADDRESS,
            "spark.driver.extraJavaOptions": " ".join(
                (*(_QUICK_START if settings.quick_start else _LONG_RUN), *settings.java_options)
            ),
        }
    for name, text in settings.options.items():
        separator = _LISTS.get(name)
        is_added = separator is not None and name in properties
        properties[name] = f"{properties[name]}{separator}{text}" if is_added else text
    return properties


@contextmanager
def _output_to(log_file: Path | None) -> Iterator[None]:
    """Redirect the output of processes started meanwhile (the JVM, and through it the workers) to a file."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    saved = [os.dup(number) for number in (1, 2)]
    try:
        with log_file.open("ab") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
