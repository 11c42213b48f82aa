"""Publishing to an author's own logs in a folder: signing the next entry."""

from __future__ import annotations

from culm_connectors.bamboo_p2p.errors import LogEnded, LogIncomplete
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM
from culm_models.bamboo.entry import decode_entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import KeyPair


def publish(
    store: FolderStore, key_pair: KeyPair, log_id: int, payload: bytes, *, end_of_log: bool = False
) -> HeldEntry:
    """Sign the next entry of an own log and store it with its payload. Call it in `store.exclusively()`.

    Raises `LogEnded` if the log is ended, forked or full, and `LogIncomplete` if the skiplink's target is not
    held.
    """
    log: LogKey = (key_pair.public_key, log_id)
    ended = store.end_of_log(log)
    if ended is not None:
        raise LogEnded(f"log {log_id} was ended by its entry {ended}", hint="publish to another log id")
    seq_num = store.highest_entry(log) + 1
    if store.fork_proof(log) is not None or seq_num > MAX_SEQ_NUM:
        raise LogEnded(f"log {log_id} is forked, or full: nothing can follow", hint="use another log id")
    backlink = store.entry(log, seq_num - 1)
    skiplink = store.entry(log, lipmaa(seq_num)) if needs_skiplink(seq_num) else None
    if needs_skiplink(seq_num) and skiplink is None:
        raise LogIncomplete(
            f"entry {lipmaa(seq_num)} of log {log_id} is not held, and the next entry links to it",
            hint="sync the log from a peer first",
        )
    entry_bytes = sign_entry(
        key_pair,
        log_id,
        seq_num,
        payload,
        skiplink=skiplink.hash if skiplink else None,
        backlink=backlink.hash if backlink else None,
        end_of_log=end_of_log,
        flavour=store.flavour,
    )
    signed = HeldEntry(decode_entry(entry_bytes, store.flavour), entry_bytes, store.flavour.hash(entry_bytes))
    store.put_verified(log, [(signed, payload)])
    return signed
