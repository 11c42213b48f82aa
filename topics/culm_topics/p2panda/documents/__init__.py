"""The topic `documents`: the present state of p2panda's documents.

- `record`: the topic's key and value.
- `consumer`: documents and their changes, for programs; `selection` is what one selects. `state_reader`
  reads the topic into a `document_file`, and `current` adds types and problems to what is there.
- `log_operations` reads operations from `logs`: values that no record contains, and views in the past;
  `operation_places` remembers where operations are.
- `errors`: the errors between a program and documents.
"""
