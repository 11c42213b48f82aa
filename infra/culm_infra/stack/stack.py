"""A local stack: start, stop, kill and inspect it. All commands on one directory share one stack.

A lock in the directory serialises commands, so two starts at once are one start. The record beside it
identifies the broker's process by id and start time: another program's process with the same id is never
mistaken for the broker.
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
    """State of a stack: ``running`` refers to its process, ``healthy`` to an answer of its broker."""

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
        """Open the stack of a directory, else the named stack below the user's data directory."""
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
        """Start the broker unless it runs, wait until it answers, and return its bootstrap address.

        ``port``, ``heap_mb`` and ``properties`` (Kafka's broker properties) are remembered for later starts;
        a broker that already runs keeps its own. With ``quick_start`` its Java compiles quickly rather than
        well: for runs of minutes. Missing jars are fetched first, which does not count towards ``timeout_s``.

        Raises `StackStartError`, `StackPortError`, `JarError`, `JavaNotFoundError`, `LockTimeoutError`.
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
            # For programs that receive no address.
            (self.directory / ADDRESS_FILE).write_text(bootstrap + "\n")
            return bootstrap

    def not_applied(
        self,
        *,
        port: int | None = None,
        heap_mb: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the requested values that the running broker does not have, each with its present value.

        Empty if the broker runs as requested. Call it after `up`, which does not restart a running broker.
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
        """Stop the broker and keep its data. Returns False if it did not run.

        It receives SIGTERM, and SIGKILL after ``timeout_s`` seconds; the data survives both.
        """
        with self._running_process(lock_timeout_s=timeout_s) as process:
            if process is not None:
                process.stop(timeout_s=timeout_s)
        return process is not None

    def kill(self) -> bool:
        """Kill the broker as a crash would (SIGKILL), for fault tests. Returns False if it did not run."""
        with self._running_process(lock_timeout_s=30.0) as process:
            if process is not None:
                process.kill()
        return process is not None

    def status(self) -> StackStatus:
        """Return the present state; quick if the stack is down, one metadata request if it is up."""
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
        """Return the ports that the next start uses again; empty before the first start."""
        record = records.read(self._record_path)
        return () if record is None else (record.port, record.controller_port)

    @property
    def bootstrap(self) -> str:
        """The address of the running broker. Raises `StackNotRunningError`."""
        record = records.read(self._record_path)
        if record is None or record.process is None or not record.process.is_running():
            raise self.not_running()
        return f"{HOST}:{record.port}"

    def not_running(self) -> StackNotRunningError:
        """Return the error of a command that needs this stack; it names the local stacks that do run."""
        choice = stack_choice(self.directory)
        others = [name for name in running_stacks() if name != choice]
        if others:
            return StackNotRunningError(
                f"no Kafka to use: the local stack {choice} is not running, but {', '.join(others)} "
                f"{'is' if len(others) == 1 else 'are'}",
                hint=f"select it with --stack {others[0]} or CULM_STACK__NAME, or give --bootstrap",
            )
        flag = "" if choice == "default" else f" --stack {choice}"
        return StackNotRunningError(
            f"no Kafka to use: no bootstrap servers are set, and the local stack {choice} is not running",
            hint=f"start it with `culm stack up{flag}`, or give --bootstrap HOST:PORT or CULM_BOOTSTRAP",
        )

    @contextmanager
    def _disk_named(self) -> Iterator[None]:
        """Turn the error of a full disk into one that names the directory and the remedy."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StackStartError(
                f"the disk of {self.directory} is full",
                hint="make room on it, or choose another directory with --stack",
            ) from error

    @contextmanager
    def _locked(self, timeout_s: float) -> Iterator[None]:
        with file_lock(self.directory / "stack.lock", timeout_s=timeout_s):
            yield

    @contextmanager
    def _running_process(self, *, lock_timeout_s: float) -> Iterator[ProcessIdentity | None]:
        """Yield the broker's process to a body that ends it, and remove it from the record afterwards."""
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
        """Start as ``record`` says and remember it; a failed start restores the earlier record."""
        broker.write_files(self.files, record)
        if not record.formatted:
            # Files of an interrupted start are not valid data.
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
        """Return the record of a stack that is about to start; its ports are free."""
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
        # The cluster id proves that this is our broker and not another one on the same port.
        return ports.answers(record.port) and (
            broker.cluster_id_at(record.port, timeout_s=timeout_s) == record.cluster_id
        )

    def _wait_until_healthy(self, record: StackRecord, timeout_s: float) -> None:
        logs = (self.files.output, self.files.log)
        patience = Patience(timeout_s, lambda: [log.stat().st_size for log in logs if log.exists()])
        while record.process is not None and record.process.is_running():
            if self._is_healthy(record, timeout_s=min(5.0, max(0.1, timeout_s))):
                return
            if patience.is_over():
                raise self._start_error(f"the broker does not answer, and wrote nothing for {timeout_s:g} s")
            time.sleep(_POLL_S)
        raise self._start_error("the broker ended while it was starting")

    def _start_error(self, what: str) -> StackStartError:
        lines = last_lines(self.files.output, _SHOWN_LINES) or [
            line
            for line in last_lines(self.files.log, 200)
            if " ERROR " in line or " FATAL " in line or "Exception" in line
        ]
        shown = "".join(f"\n  {line[:300]}" for line in lines[-_SHOWN_LINES:])
        return StackStartError(f"{what}{shown}", hint=f"its log is {self.files.log}")


def stack_choice(directory: Path) -> str:
    """Return what ``--stack`` calls the stack in a directory: its name, or the directory."""
    return directory.name if directory == stack_directory(directory.name).absolute() else str(directory)


def running_stacks() -> list[str]:
    """Return the names of the stacks below the user's data directory whose broker runs."""
    names = []
    for path in sorted(stack_directory().parent.glob("*/stack.json")):
        # A damaged record is the business of the command that uses that stack.
        with suppress(StackError, OSError):
            record = records.read(path)
            if record is not None and record.process is not None and record.process.is_running():
                names.append(path.parent.name)
    return names


def _size_bytes(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        # A running broker deletes and renames files meanwhile.
        with suppress(OSError):
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total
