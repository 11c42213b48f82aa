"""Start from the topic `blocks`, and verification and repair of an index by it.

- `warm_start`: serves at once, fills the index in the background.
- `block_heights`: reads `blocks`; `heights`: heights as columns.
- `claims`: entries that `logs` is known to hold before they are in the index.
- `verification`, `repair`: finds missing or damaged logs of an index, and reads them again;
  `index_check`: does both without a connector.
"""
