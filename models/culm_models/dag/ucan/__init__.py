"""UCANs of version 0.9.1: who may publish, proved by signatures that a client carries along.

`token`: the fields. `claims`: their rules. `forms`: DAG-CBOR map and JWT. `did_key`: keys and their text.
`signing`: issuing, and verifying signatures. `chain`: delegations from the leaf up to the id.
"""
