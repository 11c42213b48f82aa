"""Errors around documents: one class for each rule, with its code."""

from culm_models.p2panda.errors import P2pandaError


class DocumentError(P2pandaError, code="p2panda.document"):
    """Base class of errors around documents."""


class SecondCreateError(DocumentError, code="p2panda.document.create"):
    """A create operation in the document of another one."""


class OtherSchemaError(DocumentError, code="p2panda.document.schema"):
    """An operation of another schema than its document's create."""


class PreviousMissingError(DocumentError, code="p2panda.document.previous"):
    """An operation that follows one which its document does not have: not here yet, or another document's."""


class UnknownViewError(DocumentError, code="p2panda.document.view"):
    """A view that names operations which are not here, or not connected to the create."""


class UnknownFieldError(DocumentError, code="p2panda.document.field_unknown"):
    """A field that the document's schema does not have."""


class FieldTypeError(DocumentError, code="p2panda.document.field_type"):
    """A value that is not of the type that the schema gives its field."""


class MissingFieldError(DocumentError, code="p2panda.document.field_missing"):
    """A field of the schema that no operation sets."""


class MissingRelationError(DocumentError, code="p2panda.document.relation_missing"):
    """A relation to a document that is not held."""


class BlobError(DocumentError, code="p2panda.blob"):
    """Base class of errors of blobs."""


class NotABlobError(BlobError, code="p2panda.blob.schema"):
    """A document that is no blob, or a deleted one."""


class BlobIncompleteError(BlobError, code="p2panda.blob.incomplete"):
    """A piece of the blob is not held, deleted, or no piece."""


class BlobLengthError(BlobError, code="p2panda.blob.length"):
    """The pieces have more or fewer bytes than the blob states."""
