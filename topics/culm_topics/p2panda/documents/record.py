"""`documents`: what the operations of a document amount to now (p2panda, "documents").

The fields have no types beyond those of an operation's values: a schema may be known later than its documents
are, and readers apply it. A value that is too long for the record is in the record of `logs` at the field's
place, as every other value is. The record's version tells readers which of two is newer.
"""

from itertools import pairwise
from typing import Annotated, Final, Literal, NamedTuple

from culm_models.bamboo.hashes import HASH_SIZE
from culm_models.errors import CulmError
from culm_models.p2panda.operations.identifiers import DocumentViewIdError, check_operation_id
from culm_models.p2panda.operations.reader import Value
from culm_models.p2panda.operations.values import decode_value
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PUBLIC_KEY_SIZE
from culm_topics.records.kinds import between, counted, rule, sized

DOCUMENTS_TOPIC: Final = "documents"
MAX_MISSING: Final = 64
"""Largest number of missing operations that a record names."""
MAX_PROBLEMS: Final = 16
"""Largest number of problems that a record names."""

OperationId = Annotated[bytes, sized(HASH_SIZE), rule("operation-id", "YASMF hash of an entry")]
PublicKey = Annotated[bytes, sized(PUBLIC_KEY_SIZE), rule("public-key")]


class DocumentField(NamedTuple):
    """The current value of a field, with the operation that set it and the operation's place in `logs`.

    `value` is the value's CBOR, as in the operation; it is empty if the value is only in `logs`.
    """

    name: str
    value: Annotated[bytes, "CBOR of the value; empty: only in `logs`"]
    operation_id: OperationId
    author: PublicKey
    partition: Annotated[int, "of the operation's record in `logs`"]
    offset: int

    def read(self) -> Value | None:
        """Return the value; None if it is only in `logs`. Raises `RecordError` if its bytes are no value."""
        if not self.value:
            return None
        try:
            return decode_value(self.value)
        except CulmError as error:
            raise RecordError(f"documents: the field {self.name[:100]!r} has {error}") from error


class DocumentProblem(NamedTuple):
    """An operation that has no effect on the document, with the code of the reason."""

    operation_id: OperationId
    code: str


@record("documents", "the present state of a document. Key: document id (34 bytes), of its create operation.")
class DocumentRecord(Record):
    """Value of `documents`. `view_id` has the document's heads, sorted; a deleted document has no fields."""

    schema_id: str
    owner: Annotated[PublicKey, "author of the create operation"]
    state: Annotated[Literal["current", "deleted"], rule("document-state")]
    version: Annotated[int, between(1), "number of operations that are applied"]
    view_id: Annotated[tuple[OperationId, ...], "operations that no applied operation follows, sorted"]
    fields: Annotated[tuple[DocumentField, ...], "by name"]
    waiting: Annotated[int, "number of operations that wait for others"]
    missing: Annotated[
        tuple[OperationId, ...], counted(MAX_MISSING), "what they wait for and is not here: the lowest ids"
    ]
    problems: Annotated[tuple[DocumentProblem, ...], counted(MAX_PROBLEMS), "the lowest ids"]

    def verify(self) -> None:
        """Raise `RecordError` if the view id is not sorted, or fields are not, or belong to a deleted one."""
        if not self.view_id or any(a >= b for a, b in pairwise(self.view_id)):
            raise RecordError("documents: the view id is empty or not sorted")
        names = [field.name for field in self.fields]
        if any(a >= b for a, b in pairwise(names)):
            raise RecordError("documents: the names of the fields are not sorted and unique")
        if names and self.state == "deleted":
            raise RecordError("documents: a deleted document has no fields")


def check_document_key(key: bytes) -> bytes:
    """Return the key, which is a document id. Raises `RecordError` if it is not one."""
    try:
        check_operation_id(key)
    except DocumentViewIdError as error:
        raise RecordError(f"documents: not a document id: {error}") from error
    return key
