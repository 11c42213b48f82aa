"""State of a job: variables that Spark restores, with the offsets, when a query starts from its checkpoint.

A job declares its variables, and its steps load and save values by key; anything else that a worker remembers
is only a cache. In a query they are Spark's state variables (`SparkState`), in tests and tools dictionaries
(`MemoryState`). Names and columns are part of every checkpoint (tests/streaming/test_frozen_checkpoints.py).

A job whose checkpoint is lost starts again, unless it can restore its state from the topics that it has
written: such a job declares `StreamingJob.restored` and `ShardStep.restore` (the job `chotki` does).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from xxhash import xxh64_intdigest

from culm_streaming.errors import StateLayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_SEED: Final = 42

Value = TypeVar("Value", bytes, int)
Key = bytes | int | tuple[bytes | int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Generic[Value]):
    """A state variable: its name, the columns of its keys (empty: one value per shard), and of its values.

    Variables with a `prefix` before their keys share one of Spark's variables, each of which costs a round
    trip when a task starts.
    """

    name: str
    keys: str = ""
    values: str = "blob binary"
    prefix: bytes = b""


class JobState(Protocol):
    """The state of one shard."""

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        """Return the value saved last, or None."""

    def save(self, variable: Variable[Value], key: Key, value: Value | None) -> None:
        """Store a value; None removes it."""


class MemoryState:
    """A shard's state in memory. `loads` and `saves` count calls, `saved_bytes` the bytes written."""

    def __init__(self) -> None:
        self.values: dict[tuple[Variable[Any], Any], Any] = {}
        self.loads = self.saves = self.saved_bytes = 0

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        """Return the value saved last, or None."""
        self.loads += 1
        return cast("Value | None", self.values.get((variable, key)))

    def save(self, variable: Variable[Value], key: Key, value: Value | None) -> None:
        """Store a value; None removes it."""
        self.saves += 1
        if value is None:
            self.values.pop((variable, key), None)
        else:
            self.saved_bytes += len(value) if isinstance(value, bytes) else 0
            self.values[variable, key] = value

    def of(self, variable: Variable[Value]) -> dict[Any, Value]:
        """Return all values of a variable, by key."""
        return {key: value for (name, key), value in self.values.items() if name == variable}

    def copy(self) -> "MemoryState":
        """Return a copy, independent of this state."""
        copied = MemoryState()
        copied.values = dict(self.values)
        return copied


class SparkState:
    """The state of the shard for which Spark makes the present call."""

    def __init__(self, handle: "StatefulProcessorHandle", variables: "Sequence[Variable[Any]]") -> None:
        self._kept: dict[str, Any] = {
            name: handle.getMapState(name, keys, values) if keys else handle.getValueState(name, values)
            for name, keys, values in dict.fromkeys(
                (variable.name, variable.keys, variable.values) for variable in variables
            )
        }

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        """Return the value saved last, or None."""
        kept = self._kept[variable.name]
        row = kept.getValue(_key(variable, key)) if variable.keys else kept.get()
        value = None if row is None else row[0]
        return cast("Value | None", bytes(value) if isinstance(value, bytearray) else value)

    def save(self, variable: Variable[Value], key: Key, value: Value | None) -> None:
        """Store a value; None removes it."""
        kept = self._kept[variable.name]
        if not variable.keys:
            if value is None:
                kept.clear()
            else:
                kept.update((value,))
        elif value is None:
            kept.removeKey(_key(variable, key))
        else:
            kept.updateValue(_key(variable, key), (value,))


def check_format(what: str, form: object, known: int) -> None:
    """Raise `StateLayoutError` unless the stored format is the one that this program knows."""
    if form != known:
        raise StateLayoutError(f"{what} has format {form}, this program knows {known}")


def check_layout(made: tuple[int, int], now: tuple[int, int]) -> None:
    """Raise `StateLayoutError` unless the (shards, blocks) of a checkpoint are those of this run."""
    if made != now:
        raise StateLayoutError(
            f"the checkpoint was made with {made[0]} shards of {made[1]} blocks, not {now[0]} of {now[1]}: "
            "keep those numbers, or start a new checkpoint"
        )


def place_of(key: bytes, shards: int, blocks: int) -> tuple[int, int]:
    """Return (shard, block) of a key: a hash, equal on every machine and in every version."""
    digest = xxh64_intdigest(key, _SEED)
    return digest % shards, digest // shards % blocks


def _key(variable: Variable[Any], key: Key) -> tuple[bytes | int, ...]:
    if variable.prefix:
        assert isinstance(key, bytes)
        return (variable.prefix + key,)
    return key if isinstance(key, tuple) else (key,)
