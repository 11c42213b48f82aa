"""The one strict door through which CBOR comes in.

`strict` has the decoder's options, for messages, records and operations, says what differs among them and
names what is refused; `values` decodes and encodes whole items, `scanner` finds where items end in a byte
stream and writes heads.
"""

from culm_models.cbor.scanner import ItemScanner
from culm_models.cbor.strict import DEFAULT_MAX_DEPTH, CborError
from culm_models.cbor.values import dumps, loads

__all__ = ["DEFAULT_MAX_DEPTH", "CborError", "ItemScanner", "dumps", "loads"]
