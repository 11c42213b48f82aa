"""UCANs of version 0.9.1: signed delegations that prove the right to publish.

`token`: the fields. `claims`: their rules. `forms`: DAG-CBOR map and JWT. `did_key`: keys and their text.
`signing`: issuing, and verifying signatures. `chain`: delegations from the leaf up to the id.
"""
