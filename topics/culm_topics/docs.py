"""Renders docs/topics.md from the catalogue, the records, the rights and the property tables.

`python -m culm_topics.docs > docs/topics.md` writes the file; a test compares the file with `render()`.
"""

import sys
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

Every Kafka topic of Culm and the jobs between them, rendered from `culm_topics.catalogue` by
`python -m culm_topics.docs`; do not edit.

A topic's name starts with a prefix, `culm.` by default. Keys are plain bytes, values are CBOR arrays in
their shortest encoding that start with a format number; no protocol data is in Kafka record headers. Values
of `dag.*` are DAG-CBOR, with links as tag 42.
`culm topics create` creates what is missing, `culm topics check` says what differs, `culm topics acls`
prints the rights.
"""

_KEYS = """\
## Keys

| key | bytes |
|---|---|
| log key (40) | the author's Ed25519 public key (32), then the log id as u64, big endian (8) |
| log key (41) | of a Bamboo log of YAMF hashes: behind those one byte 1 |
| log key, then sequence number | of `fragments`: the log key (40 or 41), the sequence number as u64 |
| payload hash, then chunk | of `payloads`: the hash as in the entry (34 or 66), the chunk's number as u32 |
| peer id (32) | the peer's Ed25519 public key |
| peer id, then log key (72) | of `version-vectors`; rows under the all-zero peer id are the log heights |
| peer id, then log key (72 or 73) | of `coverage`; rows under the all-zero peer id are the deployment's |
| block key | of `blocks` and `block-vectors`: u8 kind, u8 block bits, u16 number, then what the kind wants |
| channel id | of `sds.*`: UTF-8, 1 to 1,024 bytes |
| channel id, then message id | of `sds.index`: u16 length of the channel id, channel id, message id |
| channel id, then participant id | of `sds.owners`: the same; no participant id: the channel itself |
| ack key | of `sds.acks`: u8 kind, then ids as its CDDL says, each but the message id behind its u16 length |
| source | of `chotki.*`: u64, big endian |
| store key (18) | of `chotki.*`: u8 4f (a field) or 56 (a vector), u64 source, u64 progress, u8 letter |
| session key (40) | of `chotki.*`: the edge (32), then its session's number as u64 |
| epoch key (5) | of `chotki.state`: u8 45, u32 partition |
| space, id (32) | of `dag.*`: an Ed25519 public key; no CID in a key is as short |
| CID | of `dag.*`: the bytes of a CIDv1, at most 128; where more follows, it says itself where it ends |

Every client must put a key into the same partition: the Java client's partitioner (murmur2), which
librdkafka calls `murmur2_random`. The number of partitions of a topic keyed by log is fixed for the
topic's life, because Kafka keeps a log's order only within a partition.

`fragments` and `payloads` are partitioned by a part of their key, so that one reader has all of a log's
fragments beside that log, and all chunks of a payload: by the log key without the sequence number, by the
payload hash without the chunk's number. Producers name the partition: the one that murmur2 gives for that
part (`culm_topics.logs.records.fragment_partition`, `payload_partition`).

The `sds.*` topics do not follow the clients' partitioners: all records of a channel are in partition
`xxh64(channel id) mod partitions` of each of them (seed 42, the hash as a signed number, the remainder never
negative: `culm_topics.records.shard_of`, Spark's `pmod(xxhash64(key), partitions)`), which producers name
explicitly. All `sds.*` topics of a deployment have the same number of partitions. The same function
places what is Chotki's: packets by their source's key, what belongs to a block by its source (u64) and number
(progress >> 28, u32) behind each other. `chotki.fields` and `chotki.state` have as many partitions.

`dag.nodes`, `dag.shards` and `dag.shard-index` are partitioned by the CID in their key alone (murmur2 of its
bytes: `culm_topics.dag.records.cid_partition`), which producers name: all chunks of a shard are in one
partition, and its index is in the partition of the same number.
"""

_BLOCKS = """\
## Blocks

A block is the first `block_bits` bits (0 to 16) of the public key, within one schema (`blocks`) or of one
peer (`block-vectors`); being a prefix of the sort order it is a range of p2panda's sync range as well.

- The block's heights are the rows of the chunks that its summary names, with the rows of `recent` above
  them. A chunk whose digest is not the one that the summary names belongs to another version: pass it over.
- Shard n of the job writes partition n, in order: chunks of the free slot, the summary that names them, the
  tombstones of the former ones, and after everything else of the micro-batch its `BlockProgress`. So
  whatever prefix of a partition is read holds complete blocks, and the least `applied` of all shards is
  where to go on in `logs` (or `receipts`) without missing anything. The number of partitions is therefore
  the job's number of shards, fixed for the topic's life.
- Every key carries its block bits. Records of other block bits are left over from a deployment that has
  changed them: `culm_topics.logs.blocks.read_blocks` takes those that have come furthest, unless told which.
- What is written is a function of the input; a repeated micro-batch writes the same records again.
"""

_READING = """\
## Reading the replicated logs

`logs` may hold repeats: the streaming job's sink is at-least-once, and a batch that is run again writes
its records again, also behind later ones. Within a log the sequence number tells: a record whose number
is not above the log's height was there before. `culm_topics.logs.consumer.LogConsumer` does this, across its
own restarts too:

```python
from culm_topics.logs.consumer import LogConsumer

with LogConsumer("127.0.0.1:9092", group_id="culm.my-program", state_dir="state") as consumer:
    for entry in consumer:
        store(entry.public_key, entry.log_id, entry.seq_num, entry.operation_bytes)
```

- Without an address it reads from `CULM_BOOTSTRAP`, else from the local stack that runs. `CULM_PREFIX` and
  `CULM_KAFKA` hold for an address that is given as well; a `KafkaSettings` is taken as it is.
- `for` and `async for` both work; `stop()` ends either. `schema_ids`, `public_keys` and `logs` restrict
  what is handed out; `stop_at_end=True` ends at the end that the topic had at the start. Nothing else ends
  the iteration: a member of a group that has no partition waits for one.
- **The guarantee.** Across a group every entry is handed out, each log in sequence order. None comes twice
  while members join and leave. After a kill, an error in the loop, or a member that was out of reach for
  longer than `session.timeout.ms`, those come again that were not committed.
- **Commits.** `AutoCommit(entries=1000, seconds=5)` is the default: whichever comes first, before a
  partition goes to another member, and at the end. An entry counts as handled when the program asks for the
  next one or leaves the `with` block without an error; an error in the loop leaves the entry at hand
  uncommitted. `commit()` commits at once all that was handed out; with `auto_commit=None` nothing else
  does, and `on_revoke` is the place for it in a program that handles entries in batches of its own. While
  the group or its coordinator moves a commit is tried again, for `commit_timeout_seconds`; then it is
  `topics.commit`.
- A program that keeps its results in a database of its own can store `positions()` and `origin` with them
  in one transaction and resume with `start_at` and `origin`: then each entry counts once.
- After a restart it must know again how far each log had come. With `state_dir` that is a file, written
  after Kafka has taken the offsets; the offsets in Kafka stay the only truth about the position. Without
  it, or when another member held the partition before, the partition is read again up to the committed
  offset before anything is handed out (`on_rebuild` shows how far). Memory: about 200 bytes a log.
- **What costs only itself.** A record that is none (`topics.record`) is passed over. A record behind a
  missing entry waits for `gap_wait_seconds`, since a batch that failed half-way may leave a hole which its
  second run fills; while it waits, the committed position stays before it, and a member without the state
  file that resumes there sees what follows once more. Then the log is set aside (`topics.gap`): its later
  records are dropped until the missing entry comes, as it does when the job `logs` writes the log again.
  Both are counted (`bad_records`, `logs_set_aside`) and logged, or given to `on_problem`. `strict=True`
  makes them errors.
- **What is refused**, before anything is read or written: an offset that is no longer in the topic
  (`topics.offset_out_of_range`), positions of another cluster, prefix or creation of the topic
  (`topics.origin`); and, while it reads, a topic that was created anew (`topics.recreated`). The errors'
  `hint` says what to do.
- **Bare logs**, whose payloads are no operations (Bamboo's own), are handed out with `bare_logs=True` only:
  an entry's `schema_id` is then empty, `flavour` says which hashes its log has, and `payload` is None where
  the payload is not beside the entry. `schema_ids` does not restrict them; `schema_ids=[]` with
  `bare_logs=True` is bare logs alone. Who does not ask sees logs of operations, as ever.
- **Logs with gaps.** `sparse=True` (which includes `bare_logs`) reads `fragments` beside the logs: an entry
  with gaps before it is handed out with `is_sparse`, once, in no order; when its log has reached it, it comes
  again in its place. `coverage((public_key, log_id), flavour)` says the gap-free height, the runs beyond it,
  what is `missing` between them, and whether an entry `is_provable` by its certificate pool among all that
  was seen. A member of a group reads the fragments of the partitions whose logs it reads, after those logs as
  they stood when it took them; committed positions hold for both topics. Their schema is not known, so
  `schema_ids` does not restrict fragments, and of a log that it leaves out `coverage` knows the fragments
  alone. Memory: about 100 bytes for each run of them, up to a million runs; `fragments_not_remembered` counts
  those that were handed out beyond that.
- **Where it is.** `log_positions()` walks over all logs of which anything came: `handed_out` as runs of
  sequence numbers (each end exclusive), what is `waiting` for an entry before it, and what is `missing`, by
  number: between runs, before what waits, and where a log `is_set_aside`. `coverage` tells what is provable.

  ```python
  for position in consumer.log_positions():
      if not position.is_whole:
          public_key, log_id = position.log
          print(public_key.hex(), log_id, "has", position.handed_out, "lacks", position.missing)
  ```

  `positions()`, in contrast, is where to go on in the topic: an offset for each partition.
- **Payloads** that are not beside their entries: `culm_topics.logs.payload_reader.PayloadReader` iterates
  over the whole, verified payloads of `payloads` (with `positions()` and `start_at`, no group), and
  `fetch(hash)` or `find(hashes)` look for those of known entries (`entry.entry().payload_hash`), each by
  reading the one partition where its chunks lie. Large ones lie in a temporary file until they are closed;
  limits: `max_payload_bytes`, `max_unfinished_bytes`. What is refused is counted and told (`passed_over`,
  `on_problem`).
- librdkafka's own log lines go to the logger `culm_topics.librdkafka`, one of each kind in ten seconds.
"""

_DAGS = """\
## Reading what is published

`culm_topics.dag.consumer.DagConsumer` follows `dag.published` and hands out what changes of each id, and
opens its content by `dag.shard-index`, block by block, each checked by its CID:

```python
from culm_topics.dag.consumer import DagChangeKind, DagConsumer

with DagConsumer("127.0.0.1:9092", state_dir="state") as consumer:
    for change in consumer:
        if change.kind is DagChangeKind.COMPLETE:
            for piece in consumer.content.file(str(change.published.complete.link)):
                ...
```

- Changes: `tip`, `complete` (the latest of which everything is here), `revoked`, and `superseded`: it was the
  tip, and the new tip does not build on it, so both can be opened and merged.
- `positions()` and `origin` are kept by the program and given back as `start_at` and `origin`. The topic is
  compacted: of what was replaced meanwhile only the outcome comes.
- `content.block(cid)`, `content.file("CID/path", start, stop)`, `content.shard(cid)`: a block is read out of
  the one or two chunks where it lies. At which offset of `dag.shards` those are nobody writes down, since a
  rebuilt deployment has other offsets: they are looked for backwards from the time at which the broker took
  the shard's index, and what was passed is remembered. `cache_bytes` of chunks stay in memory;
  `state_dir` keeps where blocks lie (some 100 bytes a block) across restarts.
- `culm_topics.dag.orders.read_orders` gives the order of each id, as far back as `dag.order` goes.
- The verdict settings of the deployment stand in `dag.settings`: the first record behind the last one without
  a value. `culm_topics.dag.verdict.agree_verdict` publishes a process's own where there are none, and refuses
  where they differ.
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
            _READING,
            _DAGS,
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
    return {"compact": "compact", "keep": "kept for ever"}[topic.cleanup]


def _section(topic: TopicSpec) -> str:
    parts = [f"## {topic.name}\n", f"{topic.doc}\n"]
    if cddl := _cddl(topic):
        parts.append(f"```cddl\n{cddl}```\n")
    parts.append(
        "Topic properties: " + ", ".join(f"`{name}={text}`" for name, text in topic.config.items()) + ".\n"
    )
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
            "The streaming jobs (`culm job run`); those of a group run together by its name.\n",
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
            "What each program may do on a broker with access control, with the default prefix.\n",
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
            "Any librdkafka property can be given under `[kafka]` in culm.toml, in `CULM_KAFKA` or in "
            "`KafkaSettings.options`, but for these:\n",
            _table(("property", "because it"), ((f"`{name}`", reason) for name, reason in FIXED.items())),
            "For Spark's Kafka source and sink the same properties are said in the Java client's words:\n",
            _table(
                ("given", "Spark gets (behind `kafka.`)"),
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
            f"The same in both: {_names(SAME)}.\n",
            f"Left out, because they tune librdkafka alone: {_names(IGNORED)}.\n",
            "Any other property is an error that names it, unless `java.<same name>` says what Spark gets.\n",
        ]
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(render())
