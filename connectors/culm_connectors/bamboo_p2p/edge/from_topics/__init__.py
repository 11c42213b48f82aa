"""What topics bring to an edge's folder.

- `apply_records`: `entries`, `logs`, `fragments` and `payloads`, whoever wrote them
- `awaited_payloads`: payloads that come apart from their entries; `expected_payloads`: those on their way
"""
