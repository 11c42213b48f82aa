"""The local stack: a real single-node Kafka from its published jars, on the machine's own Java.

- `stack`: `Stack`, with up, down, kill, status and bootstrap;
- `broker`: the one JVM: its configuration, format, start, and whether it answers;
- `log_file`: reading the broker's own log while it is written;
- `record`, `lock`, `process`, `ports`: what a stack remembers, who may change it, whose process it is;
- `jars`, `coordinates`, `ivy`: the cache of jars, the table of what is in it, and how they are fetched;
- `java`: which Java runs all this;
- `errors`: what can go wrong, each with a stable code and a hint.
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
