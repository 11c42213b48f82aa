"""The topics of SDS.

- `catalogue`: the topics; `records`, `keys`: their values and keys.
- `events`: a reader that yields every event once; `event_sequence`: their order, without Kafka.
- `store`: messages by id and by `retrieval_hints`; `index`, `index_file`: where they lie, in a local file.
- `ack_status`: `sds.acks` as it stands.
"""
