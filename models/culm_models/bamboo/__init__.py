"""Bamboo logs: single-writer, append-only, signed, with links that keep proofs short.

`entry` is the byte layout and makes entries, with the rule of the skiplinks, `checks` is all that an entry
shows by itself with its payload, and against the log before it. `certificate_pool` are the few entries
that prove one, `fork_proof` the two that prove a fork; `range_set` which of a log are held. `hashes` names
entries and payloads, `log_store` is what is asked of whoever keeps logs, `errors` names what can be wrong.
"""

from culm_models.bamboo.checks import check_links, check_payload, check_signature
from culm_models.bamboo.entry import (
    MAX_ENTRY_SIZE,
    MIN_ENTRY_SIZE,
    Entry,
    decode_entry,
    lipmaa,
    needs_skiplink,
    sign_entry,
)
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.hashes import hash_bytes

__all__ = [
    "MAX_ENTRY_SIZE",
    "MIN_ENTRY_SIZE",
    "BambooError",
    "Entry",
    "check_links",
    "check_payload",
    "check_signature",
    "decode_entry",
    "hash_bytes",
    "lipmaa",
    "needs_skiplink",
    "sign_entry",
]
