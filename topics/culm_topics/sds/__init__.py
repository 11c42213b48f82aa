"""The topics of SDS.

- `catalogue`: the topics; `records`, `keys`: their values and keys.
- `events`: a reader that yields every event once; `event_sequence`: the order of events, without Kafka.
- `store`: messages by id and by `retrieval_hints`; `index`, `index_file`: their positions, in a local file.
- `ack_status`: the present contents of `sds.acks`.
"""
