"""Bamboo logs: single-writer, append-only, signed, with links that keep proofs short.

`entry` is the byte layout, `lipmaa` the rule of the skiplinks, `signing` makes entries and verifies them,
`checks` is all that an entry shows by itself with its payload, and against the log before it. `hashes` names
entries and payloads, `log_store` is what is asked of whoever keeps logs, `errors` names what can be wrong.
"""

from culm_models.bamboo.checks import check_links
from culm_models.bamboo.entry import MAX_ENTRY_SIZE, MIN_ENTRY_SIZE, Entry, decode_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.lipmaa import lipmaa, needs_skiplink
from culm_models.bamboo.signing import check_payload, entry_hash, sign_entry, verify_signature

__all__ = [
    "MAX_ENTRY_SIZE",
    "MIN_ENTRY_SIZE",
    "BambooError",
    "Entry",
    "check_links",
    "check_payload",
    "decode_entry",
    "entry_hash",
    "lipmaa",
    "needs_skiplink",
    "sign_entry",
    "verify_signature",
]
