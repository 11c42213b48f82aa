"""Bamboo Point-2-Point at the edge: one folder per flavour of hashes, with Kafka behind it.

- `driver`: the peers, folder and topics of one flavour; `settings`; `metrics`
- `access`: the allow-list, quotas and retention, from the settings and a policy file
- `tables`: tables beside the logs (origin, offsets, outbox), and opening such a folder
- `hooks`: passes changes and events of connections to the outbox and the reports
- `outbox`: data from peers that Kafka has not acknowledged; `publisher`: produces it
- `log_kinds`: whether a log is p2panda's or bare
- `apply_records`: applies records of topics; `awaited_payloads`: payloads that arrive without their entries
- `reports`: records for `holdings` and `rejected`
"""
