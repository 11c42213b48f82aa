"""The local stack: a real single-node Kafka from its published jars, on the machine's own Java.

- `stack`: `Stack`, with up, down, kill, status and bootstrap;
- `broker`: the JVM: its configuration, format, start, and health;
- `log_file`: reading the broker's own log while it is written;
- `record`, `lock`, `process`, `ports`: the state of a stack, its lock, its process, its ports;
- `jars`, `coordinates`, `ivy`: the cache of jars, the table of its contents, and the download;
- `java`: the choice of the Java installation; `class_archive`: archives of classes, for quick starts;
- `executor`: the start of a Spark executor in a pod;
- `errors`: errors with stable codes and hints.
"""

from __future__ import annotations

from culm_infra.stack.errors import (
    JarError,
    JarSumError,
    JavaNotFoundError,
    LockTimeoutError,
    StackError,
    StackNotRunningError,
    StackPortError,
    StackStartError,
    StackStateError,
)
from culm_infra.stack.java import Java, find_java
from culm_infra.stack.stack import Stack, StackStatus

__all__ = [
    "JarError",
    "JarSumError",
    "Java",
    "JavaNotFoundError",
    "LockTimeoutError",
    "Stack",
    "StackError",
    "StackNotRunningError",
    "StackPortError",
    "StackStartError",
    "StackStateError",
    "StackStatus",
    "find_java",
]
