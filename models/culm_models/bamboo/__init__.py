"""Bamboo logs: single-writer, append-only, signed, with links that keep proofs short.

`entry`: byte layout, signing and the rule of skiplinks. `checks`: checks of an entry with its payload, and of
its links to the log before it. `certificate_pool`: the few entries that prove another one. `fork_proof`: two
entries that prove a fork. `range_set`: the parts of a log that are held. `hashes`: the hashes of entries and
payloads. `log_store`: types of log stores. `errors`: one class per broken rule.
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
