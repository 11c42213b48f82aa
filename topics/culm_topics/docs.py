"""Renders docs/topics.md from the catalogue, the records, the rights and the property tables.

`python -m culm_topics.docs > docs/topics.md` writes the file; a test compares the file with `render()`.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

from culm_topics.catalogue.registry import CATALOGUE, JOBS
from culm_topics.catalogue.topics import readers, writers
from culm_topics.kafka.acls import GRANTEES, acls
from culm_topics.kafka.clients import FIXED, KafkaSettings
from culm_topics.kafka.java_client import IGNORED, RENAMED, SAME
from culm_topics.records.cddl import records_of, topic_cddl
from culm_topics.topic_spec import TopicSpec

_DAY_MS = 24 * 60 * 60 * 1000

_INTRODUCTION = """\
# Topics

This page lists every Kafka topic of Culm and the jobs between them. `python -m culm_topics.docs` renders it
from `culm_topics.catalogue`; do not edit it. [consuming.md](consuming.md) describes the readers for Python.

The name of a topic starts with a prefix, `culm.` by default. Keys are plain bytes. Values are CBOR arrays in
their shortest encoding, and their first item is a format number. Values of `dag.*` are DAG-CBOR, with links
as tag 42. Kafka record headers contain no protocol data.

`culm topics create` creates missing topics, `culm topics check` reports differences, and `culm topics acls`
prints the access rights.
"""

_KEYS = """\
## Keys

| key | bytes |
|---|---|
| log key (40) | the author's Ed25519 public key (32), the log id (u64, big endian, as all numbers in keys) |
| log key (41) | for a Bamboo log with YAMF hashes: the log key (40), one byte 1 |
| log key, then sequence number | of `fragments`: the log key (40 or 41), the sequence number (u64) |
| payload hash, then chunk | of `payloads`: the hash as in the entry (34 or 66), number of the chunk (u32) |
| peer id (32) | the peer's Ed25519 public key |
| peer id, then log key (72) | of `version-vectors`; rows under the all-zero peer id are the log heights |
| peer id, then log key (72 or 73) | of `coverage`; rows under the all-zero peer id describe the deployment |
| block key | of `blocks` and `block-vectors`: kind (u8), block bits (u8), number (u16), fields of the kind |
| channel id | of `sds.*`: UTF-8, 1 to 1,024 bytes |
| channel id, then message id | of `sds.index`: length of the channel id (u16), channel id, message id |
| channel id, then participant id | of `sds.owners`: the same; the channel's own row has no participant id |
| ack key | of `sds.acks`: kind (u8), ids as in its CDDL; each but the message id follows its length (u16) |
| source | of `chotki.*`: u64 |
| store key (18) | of `chotki.*`: 4f (a field) or 56 (a vector), source (u64), progress (u64), letter (u8) |
| session key (40) | of `chotki.*`: the edge (32), the number of its session (u64) |
| epoch key (5) | of `chotki.state`: 45, partition (u32) |
| space, id (32) | of `dag.*`: an Ed25519 public key; every CID is longer |
| CID | of `dag.*`: the bytes of a CIDv1, at most 128; they determine where the CID ends in a longer key |

Every client must put a key into the same partition. The partitioner is that of the Java client (murmur2),
which librdkafka calls `murmur2_random`. The number of partitions of a topic that is keyed by log is fixed for
the life of the topic, because Kafka keeps the order of a log only within a partition.

`fragments` and `payloads` are partitioned by a part of their key, so that one reader gets all fragments of a
log together with that log, and all chunks of a payload: by the log key without the sequence number, and by
the payload hash without the number of the chunk. Producers name the partition that murmur2 returns for that
part (`culm_topics.logs.records.fragment_partition`, `payload_partition`).

The `sds.*` topics do not use the partitioners of the clients. All records of a channel are in partition
`xxh64(channel id) mod partitions` of each of these topics: seed 42, the hash as a signed number, and a
remainder that is never negative (`culm_topics.sds.keys.shard_of`, Spark's `pmod(xxhash64(key), partitions)`).
Producers name the partition. All `sds.*` topics of a deployment have the same number of partitions.

The same function partitions the `chotki.*` topics: packets by the key of their source, and the contents of a
block by its source (u64) followed by its number (progress >> 28, u32). `chotki.fields` and `chotki.state`
have the same number of partitions.

`dag.nodes`, `dag.shards` and `dag.shard-index` are partitioned by the CID in their key alone (murmur2 of its
bytes: `culm_topics.dag.records.cid_partition`), and producers name the partition. All chunks of a shard are
in one partition, and its index is in the partition with the same number.
"""

_BLOCKS = """\
## Blocks

A block consists of all logs whose public keys start with the same `block_bits` bits (0 to 16), within one
schema (`blocks`) or of one peer (`block-vectors`). A block is also a range in the sync ranges of p2panda,
because it is a prefix of their sort order.

- The heights of a block are the rows of the chunks that its summary names, overridden by the rows of
  `recent`. Skip a chunk whose digest differs from that in the summary: it belongs to another version.
- Shard n of the job writes partition n, in this order: chunks of the free slot, the summary that names them,
  tombstones of the previous chunks, and after everything else in the micro-batch its `BlockProgress`. Every
  prefix of a partition therefore contains complete blocks. The least `applied` of all shards is the position
  in `logs` (or `receipts`) from which a reader misses nothing. The number of partitions equals the number of
  shards of the job and is fixed for the life of the topic.
- Every key contains the block bits. Records with other block bits are left over from before the deployment
  changed them; `culm_topics.logs.blocks.read_blocks` uses those with the greatest progress by default.
- Values are a function of the input: a micro-batch that is repeated writes the same records again.
"""


def render() -> str:
    """Return the text of docs/topics.md."""
    return "\n".join(
        [
            _INTRODUCTION,
            "## The catalogue\n",
            _table(
                ("topic", "key", "value", "partitions", "clean-up", "written by", "read by"),
                (_row(topic) for topic in CATALOGUE),
            ),
            *(_section(topic) for topic in CATALOGUE),
            _KEYS,
            _BLOCKS,
            _jobs(),
            _rights(),
            _properties(),
        ]
    )


def _row(topic: TopicSpec) -> tuple[str, ...]:
    return (
        f"[`{topic.name}`](#{topic.name.replace('.', '')})",
        topic.key,
        topic.value or ", ".join(f"`{record.__name__}`" for record in records_of(topic)),
        f"{topic.partitions}{'' if topic.partitioned else ' (always)'}",
        _cleanup(topic),
        ", ".join(writers(topic)),
        ", ".join(readers(topic)),
    )


def _cleanup(topic: TopicSpec) -> str:
    if topic.cleanup == "time":
        return f"after {int(topic.config['retention.ms']) // _DAY_MS} days"
    return {"compact": "compact", "keep": "kept forever"}[topic.cleanup]


def _section(topic: TopicSpec) -> str:
    parts = [f"## {topic.name}\n", _paragraph(topic.doc)]
    if cddl := _cddl(topic):
        parts.append(f"```cddl\n{cddl}```\n")
    properties = ", ".join(f"`{name}={text}`" for name, text in topic.config.items())
    parts.append(_paragraph(f"Topic properties: {properties}."))
    return "\n".join(parts)


def _cddl(topic: TopicSpec) -> str:
    if topic.cddl is not None:
        return files("culm_topics").joinpath(topic.cddl).read_text(encoding="utf-8")
    records = records_of(topic)
    # Records that two topics share are described under the first.
    return topic_cddl(records) if records and records[0].declaration.topic == topic.name else ""


def _jobs() -> str:
    return "\n".join(
        [
            "## Jobs\n",
            "The streaming jobs (`culm job run`). The name of a group runs all jobs of that group.\n",
            _table(
                ("job", "group", "reads", "writes", "what it does"),
                (
                    (f"`{job.name}`", f"`{job.group}`", _names(job.reads), _names(job.writes), job.doc)
                    for job in JOBS
                ),
            ),
        ]
    )


def _rights() -> str:
    settings = KafkaSettings(bootstrap="broker:9092")
    return "\n".join(
        [
            "## Rights\n",
            "Operations that each program needs on a broker with access control, with the default prefix.\n",
            _table(
                ("program", "resource", "name", "operations"),
                (row for program in GRANTEES for row in _rights_of(settings, program)),
            ),
        ]
    )


def _rights_of(settings: KafkaSettings, program: str) -> Iterator[tuple[str, ...]]:
    rights: dict[tuple[str, str], list[str]] = {}
    for right in acls(settings):
        if right.program == program:
            name = f"`{right.name}`" + ("…" if right.pattern == "prefixed" else "")
            rights.setdefault((right.resource, name), []).append(right.operation)
    for (resource, name), operations in rights.items():
        yield program, resource, name, ", ".join(operations)


def _properties() -> str:
    return "\n".join(
        [
            "## Kafka properties\n",
            "Any librdkafka property can be set under `[kafka]` in culm.toml, in `CULM_KAFKA` or in\n"
            "`KafkaSettings.options`, except for these:\n",
            _table(("property", "because it"), ((f"`{name}`", reason) for name, reason in FIXED.items())),
            "Spark's Kafka source and sink receive the properties under the names of the Java client:\n",
            _table(
                ("property", "Spark's property (after `kafka.`)"),
                [
                    *((f"`{name}`", f"`{java}`") for name, java in sorted(RENAMED.items())),
                    ("`sasl.username`, `sasl.password`", "`sasl.jaas.config` for PLAIN and SCRAM"),
                    (
                        "`sasl.oauthbearer.client.id`, `.client.secret`, `.scope` with `.method=oidc`",
                        "`sasl.jaas.config` and `sasl.login.callback.handler.class`",
                    ),
                    (
                        "`ssl.ca.location`, `ssl.ca.pem`",
                        "`ssl.truststore.type=PEM`, `ssl.truststore.certificates`",
                    ),
                    (
                        "`ssl.certificate.*`, `ssl.key.*` (`.location` or `.pem`)",
                        "`ssl.keystore.type=PEM`, `ssl.keystore.certificate.chain`, `ssl.keystore.key`",
                    ),
                    ("`ssl.keystore.location`, `.password`", "the same, with `ssl.keystore.type=PKCS12`"),
                    ("`java.<name>`", "`<name>`, verbatim; other clients ignore it"),
                ],
            ),
            _paragraph(f"The same in both: {_names(SAME)}."),
            _paragraph(f"Left out, because they tune librdkafka alone: {_names(IGNORED)}."),
            "Any other property is an error that names it, unless `java.<same name>` sets it for Spark.\n",
        ]
    )


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 110, break_on_hyphens=False, break_long_words=False) + "\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(render())
