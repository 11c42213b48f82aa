"""Bamboo Point-2-Point at the edge: a folder a flavour of hashes, with Kafka behind it.

- `driver`: one flavour's peers, folder and topics together; `settings`; `metrics`
- `access`: the allow-list, quotas and retention, of the settings and a policy file
- `tables`: what is kept beside the logs (origin, offsets, outbox), and the opening of such a folder
- `hooks`: what of connections goes on to all that
- `outbox`: what peers brought and Kafka has not; `publisher`: its way to topics
- `log_kinds`: whether a log is p2panda's, or bare
- `apply_records`: what topics bring; `awaited_payloads`: of it what comes apart from its entry
- `reports`: what peers are known to hold, and what is reported on `rejected`
"""
