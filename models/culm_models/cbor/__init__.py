"""The one strict door through which CBOR comes in.

`values` decodes and encodes whole items, `scanner` finds where items end in a byte stream, `errors` names
what is refused.
"""

from culm_models.cbor.errors import CborError
from culm_models.cbor.scanner import DEFAULT_MAX_DEPTH, ItemScanner
from culm_models.cbor.values import dumps, loads

__all__ = ["DEFAULT_MAX_DEPTH", "CborError", "ItemScanner", "dumps", "loads"]
