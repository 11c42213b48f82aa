"""A sixth protocol, as small as one can be: whatever anybody notes at any edge is numbered, and read by all.

- `wire`: what would be `models/culm_models/notes`;
- `topics`: `topics/culm_topics/notes`;
- `edge`: `connectors/culm_connectors/notes`;
- `job`: `streaming/culm_streaming/notes`;
- `command`: `infra/culm_infra/cli/notes`.

docs/adding-a-protocol.md explains it file by file.
"""
