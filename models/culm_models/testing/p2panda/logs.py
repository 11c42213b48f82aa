"""Writer of the log of one author for one document, entry by entry."""

from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import (
    Action,
    CheckedOperation,
    Value,
    check_entry,
    encode_operation,
)


class LogWriter:
    """Signs entry after entry of one log; `entries` holds the written entries."""

    def __init__(self, key_pair: KeyPair, log_id: int, schema_id: str) -> None:
        self.key_pair = key_pair
        self.log_id = log_id
        self.schema_id = schema_id
        self.entries: list[CheckedOperation] = []

    def append(
        self,
        fields: dict[str, Value] | None = None,
        *,
        previous: tuple[bytes, ...] | None = None,
        action: Action | None = None,
        end_of_log: bool = False,
    ) -> CheckedOperation:
        """Write the next entry.

        By default, the first entry creates the document, and each further one updates the state that the
        previous one left. A first entry with `previous` writes to another author's document.
        """
        backlink = self.entries[-1].hash if self.entries else None
        if previous is None and backlink is not None:
            previous = (backlink,)
        if action is None:
            action = "create" if previous is None else "update"
        seq_num = len(self.entries) + 1
        if fields is None and action != "delete":
            fields = {"n": seq_num}
        operation = encode_operation(action, self.schema_id, previous=previous, fields=fields)
        skiplink = self.entries[lipmaa(seq_num) - 1].hash if needs_skiplink(seq_num) else None
        entry = sign_entry(
            self.key_pair,
            self.log_id,
            seq_num,
            operation,
            skiplink=skiplink,
            backlink=backlink,
            end_of_log=end_of_log,
        )
        checked = check_entry(entry, operation)
        self.entries.append(checked)
        return checked

    def fork(self, at_seq_num: int) -> "LogWriter":
        """Return a writer of the same log that shares only the entries before `at_seq_num`."""
        other = LogWriter(self.key_pair, self.log_id, self.schema_id)
        other.entries = self.entries[: at_seq_num - 1]
        return other
