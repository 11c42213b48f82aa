"""Bamboo Point-2-Point at the edge: a folder a flavour of hashes, with Kafka behind it.

- `driver`: one flavour's peers, folder and topics together; `settings`; `metrics`
- `access`: the allow-list; `rules`: quotas and retention, of the settings and a policy file
- `budgets`: what one principal may use
- `tables`: what is kept beside the logs (origin, offsets, outbox); `opening`: of such a folder
- `hooks`: what of connections goes on to all that
- `outbox`: what peers brought and Kafka has not; `publisher`: its way to topics
- `retention`: which payloads may be dropped; `log_kinds`: p2panda's, or bare
- `from_topics/`: what topics bring
- `holdings`: what peers are known to hold; `refusals`: what is reported on `rejected`
"""
