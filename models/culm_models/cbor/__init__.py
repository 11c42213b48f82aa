"""Strict CBOR for all input.

`strict` has the decoder's options for messages, records and operations, documents their differences, and has
the errors. `values` decodes and encodes whole items. `scanner` finds where items end in a byte stream, and
writes heads.
"""

from culm_models.cbor.scanner import ItemScanner
from culm_models.cbor.strict import DEFAULT_MAX_DEPTH, CborError
from culm_models.cbor.values import dumps, loads

__all__ = ["DEFAULT_MAX_DEPTH", "CborError", "ItemScanner", "dumps", "loads"]
