"""A local stack: start it, stop it, kill it, ask how it is. Every command on one directory is one stack.

A lock in the directory puts commands in a row, so two starts at once are one start. The record beside it
names the broker's process by number and start time: a process of another program that has got the number
is never taken for ours.
"""

from __future__ import annotations

import errno
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from culm_infra.patience import Patience
from culm_infra.stack import broker, jars, ports
from culm_infra.stack import record as records
from culm_infra.stack.errors import StackError, StackNotRunningError, StackPortError, StackStartError
from culm_infra.stack.java import Java, find_java
from culm_infra.stack.lock import file_lock
from culm_infra.stack.log_file import last_lines
from culm_infra.stack.ports import HOST
from culm_infra.stack.process import ProcessIdentity
from culm_infra.stack.record import StackRecord
from culm_topics.kafka.local import ADDRESS_FILE, stack_directory

DEFAULT_HEAP_MB = 512
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_POLL_S = 0.05
_SHOWN_LINES = 8


@dataclass(frozen=True, slots=True)
class StackStatus:
    """How a stack is: ``running`` is its process, ``healthy`` that its broker answers."""

    directory: Path
    running: bool
    healthy: bool
    bootstrap: str | None
    cluster_id: str | None
    pid: int | None
    resident_bytes: int | None
    data_bytes: int


class Stack:
    """A single-node Kafka with its data in one directory.

    >>> stack = Stack(name="scratch")
    >>> bootstrap = stack.up()
    """

    def __init__(self, directory: Path | str | None = None, *, name: str = "default") -> None:
        """The stack of a directory, else the one of a name below the user's data directory."""
        if directory is None:
            if not _NAME.fullmatch(name):
                raise StackError(f"{name!r} is no name for a stack", hint="1 to 40 letters, digits, _ or -")
            directory = stack_directory(name)
        self.directory = Path(directory).absolute()
        self.files = broker.BrokerFiles(self.directory)
        self._record_path = self.directory / "stack.json"

    def up(
        self,
        timeout_s: float = 60.0,
        *,
        port: int | None = None,
        heap_mb: int | None = None,
        properties: Mapping[str, str] | None = None,
        quick_start: bool = False,
        progress: jars.Progress | None = None,
    ) -> str:
        """Start the broker unless it runs, wait until it answers, return its bootstrap address.

        ``port``, ``heap_mb`` and ``properties`` (Kafka's broker properties) are remembered for later
        starts; a broker that runs already keeps those it has. With ``quick_start`` its Java compiles quickly
        rather than well: for runs of minutes. Jars are fetched first where they are
        missing, which ``timeout_s`` does not count.
        Raises StackStartError, StackPortError, JarError, JavaNotFoundError, LockTimeoutError.
        """
        java = find_java()
        class_path = jars.ensure("broker", java=java, progress=progress)
        with self._disk_named(), self._locked(timeout_s):
            record = records.read(self._record_path)
            if record is not None and record.process is not None and record.process.is_running():
                self._wait_until_healthy(record, timeout_s)
            else:
                wanted = self._configured(record, port=port, heap_mb=heap_mb, properties=properties)
                record = self._start(record, wanted, java, class_path, timeout_s, quick_start=quick_start)
            bootstrap = f"{HOST}:{record.port}"
            # For programs that are given no address.
            (self.directory / ADDRESS_FILE).write_text(bootstrap + "\n")
            return bootstrap

    def not_applied(
        self,
        *,
        port: int | None = None,
        heap_mb: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The requested values that the running broker does not have, each beside the one that it has.

        Empty if the broker runs as requested: call it after `up`, which does not restart a running broker.
        """
        record = records.read(self._record_path)
        if record is None:
            return []
        wanted: dict[str, tuple[object, object]] = {
            "port": (port, record.port),
            "heap_mb": (heap_mb, record.heap_mb),
            **{name: (text, record.properties.get(name)) for name, text in (properties or {}).items()},
        }
        return [
            f"{name} {value} (it has {'its default' if has is None else has})"
            for name, (value, has) in wanted.items()
            if value not in (None, has)
        ]

    def down(self, timeout_s: float = 30.0) -> bool:
        """Stop the broker and keep its data; False when it did not run.

        It is asked to end, and killed when it has not ended after ``timeout_s``; the data outlives both.
        """
        with self._running_process(lock_timeout_s=timeout_s) as process:
            if process is not None:
                process.stop(timeout_s=timeout_s)
        return process is not None

    def kill(self) -> bool:
        """Kill the broker as a crash would (SIGKILL), for fault tests; False when it did not run."""
        with self._running_process(lock_timeout_s=30.0) as process:
            if process is not None:
                process.kill()
        return process is not None

    def status(self) -> StackStatus:
        """How the stack is now; quick when it is down, one metadata request when it is up."""
        record = records.read(self._record_path)
        process = record.process if record is not None else None
        if record is None or process is None or not process.is_running():
            return StackStatus(
                directory=self.directory,
                running=False,
                healthy=False,
                bootstrap=None,
                cluster_id=None if record is None else record.cluster_id,
                pid=None,
                resident_bytes=None,
                data_bytes=_size_bytes(self.files.data),
            )
        return StackStatus(
            directory=self.directory,
            running=True,
            healthy=self._is_healthy(record, timeout_s=2.0),
            bootstrap=f"{HOST}:{record.port}",
            cluster_id=record.cluster_id,
            pid=process.pid,
            resident_bytes=process.resident_bytes(),
            data_bytes=_size_bytes(self.files.data),
        )

    def remembered_ports(self) -> tuple[int, ...]:
        """The ports that the next start takes again; none before the first start."""
        record = records.read(self._record_path)
        return () if record is None else (record.port, record.controller_port)

    @property
    def bootstrap(self) -> str:
        """The address of the running broker. Raises StackNotRunningError."""
        record = records.read(self._record_path)
        if record is None or record.process is None or not record.process.is_running():
            raise StackNotRunningError(
                f"the stack in {self.directory} is not running", hint="start it with `culm stack up`"
            )
        return f"{HOST}:{record.port}"

    @contextmanager
    def _disk_named(self) -> Iterator[None]:
        """Let an error of a full disk name the directory and the remedy."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StackStartError(
                f"the disk of {self.directory} is full", hint="make room on it, or give another --dir"
            ) from error

    @contextmanager
    def _locked(self, timeout_s: float) -> Iterator[None]:
        with file_lock(self.directory / "stack.lock", timeout_s=timeout_s):
            yield

    @contextmanager
    def _running_process(self, *, lock_timeout_s: float) -> Iterator[ProcessIdentity | None]:
        """The broker's process while the body ends it; the record then says that there is none."""
        if not self._record_path.exists():
            yield None
            return
        with self._locked(lock_timeout_s):
            record = records.read(self._record_path)
            process = None if record is None else record.process
            yield process if process is not None and process.is_running() else None
            if record is not None and process is not None and not process.is_running():
                self._write(replace(record, process=None))
                (self.directory / ADDRESS_FILE).unlink(missing_ok=True)

    def _start(
        self,
        before: StackRecord | None,
        record: StackRecord,
        java: Java,
        class_path: Sequence[Path],
        timeout_s: float,
        *,
        quick_start: bool,
    ) -> StackRecord:
        """Start as ``record`` says and remember it; a start that fails leaves what was remembered before."""
        broker.write_files(self.files, record)
        if not record.formatted:
            # What a start that was cut short may have left is no data yet.
            shutil.rmtree(self.files.data, ignore_errors=True)
            broker.format_data(self.files, record, java, class_path)
            record = replace(record, formatted=True)
        process = broker.start(self.files, record, java, class_path, quick_start=quick_start)
        record = replace(record, process=process)
        try:
            self._write(record)
            self._wait_until_healthy(record, timeout_s)
        except BaseException:
            if record.process is not None:
                record.process.stop(timeout_s=5.0)
            kept = {} if before is None else before.properties
            self._write(replace(before or record, process=None, formatted=True, properties=kept))
            raise
        return record

    def _write(self, record: StackRecord) -> None:
        records.write(self._record_path, record)

    def _configured(
        self,
        record: StackRecord | None,
        *,
        port: int | None,
        heap_mb: int | None,
        properties: Mapping[str, str] | None,
    ) -> StackRecord:
        """The record of a stack that is about to start; its ports are free."""
        if record is None:
            chosen, controller_port = ports.free_ports(2)
            record = StackRecord(
                cluster_id=broker.new_cluster_id(),
                port=port or chosen,
                controller_port=controller_port,
                heap_mb=DEFAULT_HEAP_MB,
            )
        record = replace(
            record,
            process=None,
            port=port or record.port,
            heap_mb=heap_mb or record.heap_mb,
            properties={**record.properties, **(properties or {})},
        )
        for taken in (record.port, record.controller_port):
            if not ports.is_free(taken):
                raise StackPortError(
                    f"port {taken} of the stack in {self.directory} is held by another process",
                    hint=f"find it with `ss -ltnp sport = :{taken}` and end it"
                    + (", or give another with --port" if taken == record.port else ""),
                )
        return record

    def _is_healthy(self, record: StackRecord, *, timeout_s: float) -> bool:
        # The id says that it is our broker and not another one on a port that was ours.
        return ports.answers(record.port) and (
            broker.cluster_id_at(record.port, timeout_s=timeout_s) == record.cluster_id
        )

    def _wait_until_healthy(self, record: StackRecord, timeout_s: float) -> None:
        logs = (self.files.output, self.files.log)
        patience = Patience(timeout_s, lambda: [one.stat().st_size for one in logs if one.exists()])
        while record.process is not None and record.process.is_running():
            if self._is_healthy(record, timeout_s=min(5.0, max(0.1, timeout_s))):
                return
            if patience.is_over():
                raise self._start_error(f"the broker does not answer, and wrote nothing for {timeout_s:g} s")
            time.sleep(_POLL_S)
        raise self._start_error("the broker ended while it was starting")

    def _start_error(self, what: str) -> StackStartError:
        said = last_lines(self.files.output, _SHOWN_LINES) or [
            line
            for line in last_lines(self.files.log, 200)
            if " ERROR " in line or " FATAL " in line or "Exception" in line
        ]
        shown = "".join(f"\n  {line[:300]}" for line in said[-_SHOWN_LINES:])
        return StackStartError(f"{what}{shown}", hint=f"its log is {self.files.log}")


def _size_bytes(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        # A broker at work deletes and renames files under our hands.
        with suppress(OSError):
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total
