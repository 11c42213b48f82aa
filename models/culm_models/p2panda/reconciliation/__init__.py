"""Range-based set reconciliation of log heights (p2panda replication 2.1 and 2.2).

`set_reconciliation` runs the reconciler of `culm_models.reconciliation` in a session, with fingerprints that
both ends can compute. `reconciling` holds the sessions of a link. `ranges` determines the entries that a
remote is missing.
"""
